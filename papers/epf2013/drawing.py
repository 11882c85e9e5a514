"""What the figures share: colours that the colour-blind can tell apart, and panels without clutter.

Matplotlib is imported when a figure is drawn, not before; figures are made without `pyplot`, so none is left open.
"""

from __future__ import annotations

from typing import Any

from paramfilter.errors import extra
from paramfilter.plots.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

BLACK, GREY = "#000000", "#777777"
LADDER = (SKY, GREEN, ORANGE, VERMILION, PURPLE, BLUE)
"""For curves that have an order: T, or the order of a series."""

STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def mosaic(layout: list[list[str]], width: float, height: float, **keywords: Any) -> tuple[Any, dict[str, Any]]:
    """Return an empty figure, in inches, and its panels by name."""
    matplotlib = extra("matplotlib", "plots")
    figure_class = extra("matplotlib.figure", "plots").Figure
    with matplotlib.rc_context(STYLE):
        figure = figure_class(figsize=(width, height), layout="constrained")
        return figure, figure.subplot_mosaic(layout, **keywords)


def title(panel: Any, text: str) -> None:
    """Put a title over the left end of a panel."""
    panel.set_title(text, loc="left", fontsize=9.5)


def legend(panel: Any, **keywords: Any) -> None:
    """Add a legend in the style of the figures."""
    panel.legend(frameon=False, fontsize=8, **keywords)


def mark_truth(panel: Any, value: float, label: str | None = None) -> None:
    """Draw the true parameter as a thin dashed line."""
    panel.axhline(value, color=BLACK, lw=0.9, ls=(0, (5, 3)), zorder=1, label=label)

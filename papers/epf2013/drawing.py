"""What the figures share: colours that the colour-blind can tell apart, and panels without clutter.

Matplotlib is imported when a figure is drawn, not before; figures are made without `pyplot`, so none is left open.
"""

from __future__ import annotations

from typing import Any

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
"""Of M. Okabe and K. Ito, Color Universal Design (2008)."""
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
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
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

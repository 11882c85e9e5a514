"""What all pictures share: one signature, one look, and how panels are laid out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paramfilter.extras import extra

EXTRA = "plots"
MOST_LABELS = 6
"""Of times that are texts."""

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, YELLOW = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#F0E442",
)
"""Of M. Okabe and K. Ito, Color Universal Design (2008)."""

COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, YELLOW)
"""Ordered so that neighbours differ most."""

INK, QUIET, GAP, ALARM = "#222222", "#888888", "#EDEDED", VERMILION

MOST_POINTS = 2000
"""Along the time axis: more than a figure has pixels."""

WIDTH, WIDTH_OF_A_CELL = 8.0, 2.9
"""Of a figure whose panels stand below each other, and of one panel in a grid; in inches."""

MOST_COLUMNS = 3

LOOK = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "date.converter": "concise",
    "legend.fontsize": 9,
    "legend.frameon": False,
    "figure.dpi": 110,
    "savefig.dpi": 150,
}


@dataclass(frozen=True)
class Asked:
    """What was asked of a picture, beside the results.

    Attributes:
        names: Variables to draw; None for all.
        truth: Known values by name.
        level: Of the intervals.
    """

    names: tuple[str, ...] | None
    truth: Mapping[str, Any]
    level: float


def asked_for(names: Iterable[str] | None, truth: Mapping[str, Any] | None, level: float) -> Asked:
    """Put what a caller wrote into one form: a name alone is a list of one."""
    names = (names,) if isinstance(names, str) else names
    return Asked(None if names is None else tuple(names), truth or {}, level)


def picture(draw: Callable[[Any, Asked], Any]):
    """Turn a function that draws into a picture: the signature and the look of all, and a figure that is shown once.

    What is returned has no annotation, so that tools read the signature off `drawn`: it stands there and nowhere else.
    """

    def drawn(
        results: Any,
        *,
        names: Iterable[str] | None = None,
        truth: Mapping[str, Any] | None = None,
        level: float = 0.9,
        title: str | None = None,
    ) -> Any:
        matplotlib, pyplot = extra("matplotlib", EXTRA), extra("matplotlib.pyplot", EXTRA)
        with matplotlib.rc_context(LOOK):
            figure = draw(results, asked_for(names, truth, level))
            _few_ticks(figure)
            if title is not None:
                figure.suptitle(title, x=0.01, ha="left", fontsize=12)
        # A notebook shows what is returned, and a file needs no window; an open figure would be shown twice, or leak.
        backends = matplotlib.backends
        windows = backends.backend_registry.list_builtin(backends.BackendFilter.INTERACTIVE)
        if matplotlib.get_backend().lower() not in map(str.lower, windows):
            pyplot.close(figure)
        return figure

    # Not functools.wraps, whose __wrapped__ makes help() show the signature of `draw`.
    for part in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(drawn, part, getattr(draw, part))
    return drawn


def _few_ticks(figure: Any) -> None:
    """Label a few of the times only, where they are texts: each of them would have a tick of its own."""
    ticker, category = extra("matplotlib.ticker", EXTRA), extra("matplotlib.category", EXTRA)
    for axes in figure.axes:
        if isinstance(axes.xaxis.get_major_locator(), category.StrCategoryLocator):
            axes.xaxis.set_major_locator(ticker.MaxNLocator(MOST_LABELS, integer=True))


def coloured(trees: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Give each result a colour, from the first again after the last."""
    for (label, tree), colour in zip(trees.items(), itertools.cycle(COLOURS), strict=False):
        yield label, tree, colour


def panels(num: int, height: float, **options: Any) -> tuple[Any, Sequence[Any]]:
    """Return a figure with panels below each other."""
    pyplot = extra("matplotlib.pyplot", EXTRA)
    figure, axes = pyplot.subplots(
        num, 1, figsize=(WIDTH, 0.5 + height * num), layout="constrained", squeeze=False, **options
    )
    return figure, list(axes[:, 0])


def grid(num: int, height: float) -> tuple[Any, Sequence[Any]]:
    """Return a figure with small panels side by side, row after row."""
    pyplot = extra("matplotlib.pyplot", EXTRA)
    columns = min(MOST_COLUMNS, num)
    rows = -(-num // columns)
    size = (max(WIDTH / 2, 0.5 + WIDTH_OF_A_CELL * columns), 0.5 + height * rows)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat[num:]:
        axis.set_axis_off()
    return figure, list(axes.flat[:num])


def legend_above(axis: Any) -> None:
    """Put the legend above an axis, at its right end."""
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4)


def without_y(axis: Any) -> None:
    """Leave out the vertical axis, where heights say nothing by themselves."""
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)


def thinned(num: int) -> slice:
    """Return which of so many points are drawn."""
    return slice(None, None, max(1, -(-num // MOST_POINTS)))

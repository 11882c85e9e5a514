"""The look of all pictures, and how their panels, legends and titles are laid out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from paramfilter.errors import extra

EXTRA = "plots"
MOST_LABELS = 6
"""Of times that are texts."""

COLORS = ("#0072B2", "#D55E00", "#009E73", "#8A3F76", "#7A5C00")
"""Of the lines: those of M. Okabe and K. Ito, Color Universal Design (2008), that have a contrast of 3 : 1 on white,
and two of the others darkened to it."""

DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1.5, 2)), (0, (9, 3)))
"""A line style beside each color, for print in gray and for readers who see few colors."""

INK, QUIET, GAP, ALARM = "#222222", "#808080", "#EDEDED", "#B00020"
TRUTH = {"color": INK, "linewidth": 1, "linestyle": "--", "label": "truth"}

MOST_POINTS = 2000
"""Along the time axis: more than a figure has pixels."""

WIDTH, CELL_WIDTH = 8.0, 2.9
"""Of a figure whose panels stand below each other, and of one panel in a grid; in inches."""

MOST_COLUMNS = 3
CHARACTERS_PER_INCH = 12
"""Of titles and legends."""
MOST_STACKED = 4
"""Panels below each other in one column; more of them stand in two."""

LOOK = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
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


class Look(NamedTuple):
    """How one of several results is drawn."""

    color: str
    dashes: Any

    def line(self, width: float = 1.4) -> dict[str, Any]:
        """Return the style of a line."""
        return {"color": self.color, "linestyle": self.dashes, "linewidth": width}


def styled(trees: Mapping[str, Any]) -> Iterator[tuple[str, Any, Look]]:
    """Give each result a color and a line style; the sixth has the first color with another style."""
    for place, (label, tree) in enumerate(trees.items()):
        yield label, tree, Look(COLORS[place % len(COLORS)], DASHES[(place + place // len(COLORS)) % len(DASHES)])


def panels(num: int, height: float, **options: Any) -> tuple[Any, list[Any]]:
    """Return a figure with panels below each other, in two columns if there are many."""
    columns = 1 if num <= MOST_STACKED else 2
    return _subplots(num, columns, WIDTH if columns == 1 else 1.3 * WIDTH, height, **options)


def grid(num: int, height: float, **options: Any) -> tuple[Any, list[Any]]:
    """Return a figure with small panels side by side, row after row: four make a square."""
    columns = 2 if num == 4 else min(MOST_COLUMNS, num)
    return _subplots(num, columns, max(0.75 * WIDTH, 0.5 + CELL_WIDTH * columns), height, **options)


def _subplots(num: int, columns: int, width: float, height: float, **options: Any) -> tuple[Any, list[Any]]:
    figure, axes = subplots(-(-num // columns), columns, width, height, **options)
    for axis in axes.flat[num:]:
        axis.set_axis_off()
    if num > columns and num % columns and options.get("sharex"):  # the panels above empty places end their columns
        for axis in axes.flat[num - columns : num]:
            axis.tick_params(labelbottom=True)
    return figure, list(axes.flat[:num])


def subplots(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Any, Any]:
    """Return a figure and its panels, as an array; `height` is that of a row."""
    pyplot = extra("matplotlib.pyplot", EXTRA)
    size = width, 0.7 + height * rows
    figure, axes = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **options)
    figure.align_ylabels(axes)
    return figure, axes


def finish(figure: Any, axes: Sequence[Any], remark: str = "", times: str = "") -> Any:
    """Put one legend of some panels below a figure, name its time axis, and leave a remark for below its title."""
    found: dict[str, Any] = {}
    for axis in axes:
        if times and (axis.get_subplotspec().is_last_row() or axis.xaxis.get_tick_params().get("labelbottom")):
            axis.set_xlabel(times)
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    room, widths, columns = CHARACTERS_PER_INCH * figure.get_figwidth(), [8 + len(label) for label in found], len(found)
    # As Matplotlib fills columns: one after the other.
    while columns > 1 and sum(map(max, np.array_split(widths, columns))) > room:
        columns -= 1
    if found:
        figure.legend(list(found.values()), list(found), loc="outside lower left", ncols=columns)
    figure.set_label(remark)
    return figure


def set_title(figure: Any, title: str) -> None:
    """Put a title at the top left, with the figure's remark below it; nothing takes no room."""
    width = int(CHARACTERS_PER_INCH * figure.get_figwidth())
    lines = [line for text in (title, figure.get_label()) for line in textwrap.wrap(text, width)]
    if lines:
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=11, color=INK)


def close_unless_shown(figure: Any) -> None:
    """Close a figure that no window shows: a notebook shows what is returned, and would show an open one twice."""
    matplotlib, pyplot = extra("matplotlib", EXTRA), extra("matplotlib.pyplot", EXTRA)
    backends = matplotlib.backends
    windows = backends.backend_registry.list_builtin(backends.BackendFilter.INTERACTIVE)
    if matplotlib.get_backend().lower() not in map(str.lower, windows):
        pyplot.close(figure)


def label_few_texts(figure: Any) -> None:
    """Label a few of the times only, where they are texts: each of them would have a tick of its own."""
    ticker, category = extra("matplotlib.ticker", EXTRA), extra("matplotlib.category", EXTRA)
    for axes in figure.axes:
        if isinstance(axes.xaxis.get_major_locator(), category.StrCategoryLocator):
            axes.xaxis.set_major_locator(ticker.MaxNLocator(MOST_LABELS, integer=True))


def share_ends(axes: Sequence[Any], which: str) -> None:
    """Give panels one range of an axis, `x` or `y`."""
    ends = [getattr(axis, f"get_{which}lim")() for axis in axes]
    for axis in axes:
        axis.set(**{f"{which}lim": (min(low for low, _ in ends), max(high for _, high in ends))})


def thinned(num: int) -> slice:
    """Return which of so many points are drawn."""
    return slice(None, None, max(1, -(-num // MOST_POINTS)))

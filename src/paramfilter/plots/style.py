"""What all pictures share: one signature, one look, and how panels are laid out."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from paramfilter.errors import DataError, extra

EXTRA = "plots"
MOST_LABELS = 6
"""Of times that are texts."""

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
"""Of M. Okabe and K. Ito, Color Universal Design (2008)."""

COLORS = (BLUE, VERMILION, GREEN, "#8A3F76", "#7A5C00")
"""Of the lines: those of Okabe and Ito that have a contrast of 3 : 1 on white, and two of the others darkened to it."""

DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1.5, 2)), (0, (9, 3)))
"""A line style beside each color, for print in gray and for readers who see few colors."""

INK, QUIET, GAP, ALARM = "#222222", "#808080", "#EDEDED", "#B00020"

MOST_POINTS = 2000
"""Along the time axis: more than a figure has pixels."""

WIDTH, CELL_WIDTH = 8.0, 2.9
"""Of a figure whose panels stand below each other, and of one panel in a grid; in inches."""

MOST_COLUMNS = 3
CHARACTERS_PER_INCH = 12
"""Of a title."""
MOST_STACKED = 4
"""Panels below each other in one column; more of them stand in two."""

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
        last: How many steps to draw, up to the last one; None for all.
    """

    names: tuple[str, ...] | None
    truth: Mapping[str, Any]
    level: float
    last: int | None = None


class Look(NamedTuple):
    """How one of several results is drawn."""

    color: str
    dashes: Any


def asked_for(
    names: Iterable[str] | None, truth: Mapping[str, Any] | None, level: float, last: int | None = None
) -> Asked:
    """Put what a caller wrote into one form: a name alone is a list of one."""
    names = (names,) if isinstance(names, str) else names
    return Asked(None if names is None else tuple(names), truth or {}, level, last)


def picture(draw: Callable[[dict[str, Any], Asked], Any]):
    """Turn a function that draws opened results into a picture: with the signature, the look and the title of all.

    The result has no annotation, so that tools read the signature off `drawn`: it stands there and nowhere else.
    """
    from paramfilter.plots.contents import heading_of, opened, require_known

    def drawn(
        results: Any,
        *,
        names: Iterable[str] | None = None,
        truth: Mapping[str, Any] | None = None,
        level: float = 0.9,
        last: int | None = None,
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Any:
        matplotlib = extra("matplotlib", EXTRA)
        trees = opened(results, last)
        require_known(trees, truth or {})
        with matplotlib.rc_context(LOOK):
            figure = draw(trees, asked_for(names, truth, level, last))
            label_few_texts(figure)
            relabel(figure, labels or {})
            set_title(figure, heading_of(trees) if title is None else title)
        close_unless_shown(figure)
        return figure

    # Not functools.wraps, whose __wrapped__ makes help() show the signature of `draw`.
    for part in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(drawn, part, getattr(draw, part))
    return drawn


def set_title(figure: Any, title: str) -> None:
    """Put a title at the top left, with the figure's remark below it; nothing takes no room."""
    width = int(CHARACTERS_PER_INCH * figure.get_figwidth())
    lines = [line for text in (title, figure.get_label()) if text for line in textwrap.wrap(text, width)]
    if lines:
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=11, color=INK)


def relabel(figure: Any, labels: Mapping[str, str]) -> None:
    """Replace what axes are called, also where more text follows, as in "phi: contraction"."""
    known = []
    for axes in figure.axes:
        texts = [axes.xaxis.label, axes.yaxis.label, axes.title, axes._left_title]
        if isinstance(axes.yaxis.get_major_formatter(), extra("matplotlib.ticker", EXTRA).FixedFormatter):
            texts += axes.get_yticklabels()
            axes.set_yticks(axes.get_yticks(), [_renamed(text.get_text(), labels) for text in axes.get_yticklabels()])
        known += [part for text in texts for part in (text.get_text(), _name_in(text.get_text()))]
        for text in texts[:4]:
            text.set_text(_renamed(text.get_text(), labels))
    if unknown := [name for name in labels if name not in known]:
        raise DataError(f"labels has {unknown}, but the picture has {sorted(filter(None, set(known)))}.")


def _name_in(text: str) -> str:
    return re.split(r"[:\n]| \(", text, maxsplit=1)[0]


def _renamed(text: str, labels: Mapping[str, str]) -> str:
    name = text if text in labels else _name_in(text)
    return labels[name] + text[len(name) :] if name in labels else text


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


def styled(trees: Mapping[str, Any]) -> Iterator[tuple[str, Any, Look]]:
    """Give each result a color and a line style; the sixth has the first color with another style."""
    for place, (label, tree) in enumerate(trees.items()):
        yield label, tree, Look(COLORS[place % len(COLORS)], DASHES[(place + place // len(COLORS)) % len(DASHES)])


def panels(num: int, height: float, **options: Any) -> tuple[Any, Sequence[Any]]:
    """Return a figure with panels below each other, in two columns if there are many."""
    columns = 1 if num <= MOST_STACKED else 2
    figure, axes = _subplots(num, columns, (WIDTH if columns == 1 else 1.3 * WIDTH), height, **options)
    if columns > 1 and options.get("sharex") and num % columns:  # the panel above the empty place ends its column
        axes[num - columns].tick_params(labelbottom=True)
    return figure, axes


def grid(num: int, height: float, **options: Any) -> tuple[Any, Sequence[Any]]:
    """Return a figure with small panels side by side, row after row."""
    columns = columns_for(num)
    return _subplots(num, columns, max(0.75 * WIDTH, 0.5 + CELL_WIDTH * columns), height, **options)


def columns_for(num: int) -> int:
    """Return how many small panels stand side by side: four make a square."""
    return 2 if num == 4 else min(MOST_COLUMNS, num)


def _subplots(num: int, columns: int, width: float, height: float, **options: Any) -> tuple[Any, Sequence[Any]]:
    pyplot = extra("matplotlib.pyplot", EXTRA)
    rows = -(-num // columns)
    size = (width, 0.7 + height * rows)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **options)
    for axis in axes.flat[num:]:
        axis.set_axis_off()
    figure.align_ylabels(axes)
    return figure, list(axes.flat[:num])


def legend_below(figure: Any, *axes: Any) -> None:
    """Put one legend of some axes below a figure, each label once, in as many columns as have room."""
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    widths = [0.65 + len(label) / 13 for label in found]
    columns = len(found)
    # As Matplotlib fills columns: one after the other.
    while columns > 1 and sum(map(max, np.array_split(widths, columns))) > figure.get_figwidth():
        columns -= 1
    if found:
        figure.legend(list(found.values()), list(found), loc="outside lower left", ncols=columns)


def note(figure: Any, text: str) -> None:
    """Leave a remark with a figure, to be written below its title."""
    figure.set_label(text)


def label_time(axes: Sequence[Any], name: str) -> None:
    """Name the time axis of the panels that show its ticks."""
    for axis in axes:
        if axis.get_subplotspec().is_last_row() or axis.xaxis.get_tick_params().get("labelbottom"):
            axis.set_xlabel(name)


def without_y(axis: Any) -> None:
    """Leave out the vertical axis, where heights say nothing by themselves."""
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)


def thinned(num: int) -> slice:
    """Return which of so many points are drawn."""
    return slice(None, None, max(1, -(-num // MOST_POINTS)))

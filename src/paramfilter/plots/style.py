"""What all pictures share: how results are taken in, the look, and thinning."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from paramfilter.errors import DataError
from paramfilter.extras import extra
from paramfilter.results import open_result
from paramfilter.results.tables import components

EXTRA = "plots"

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

MOST_PANELS = 12

WIDTH = 8.0
"""Of a figure, in inches."""

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
    "legend.fontsize": 9,
    "legend.frameon": False,
    "figure.dpi": 110,
    "savefig.dpi": 150,
}

Result = Any
"""A `DataTree` from `to_datatree`, or the path of a saved one."""

Results = Any
"""One result, or a dict of results to be compared."""


def picture(draw: Callable) -> Callable:
    """Turn a function that draws into one with our look, whose figure is shown once, wherever it is called."""

    @functools.wraps(draw)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        matplotlib, pyplot = extra("matplotlib", EXTRA), extra("matplotlib.pyplot", EXTRA)
        title = kwargs.pop("title", None)
        with matplotlib.rc_context(LOOK):
            figure = draw(*args, **kwargs)
            if title is not None:
                figure.suptitle(title, x=0.01, ha="left", fontsize=12)
        # A notebook shows what is returned, and a file needs no window; an open figure would be shown twice, or leak.
        backends = matplotlib.backends
        windows = backends.backend_registry.list_builtin(backends.BackendFilter.INTERACTIVE)
        if matplotlib.get_backend().lower() not in map(str.lower, windows):
            pyplot.close(figure)
        return figure

    return drawn


def opened(results: Results) -> dict[str, Any]:
    """Return results by label; one alone has the label ""."""
    if isinstance(results, str | os.PathLike):
        return {"": open_result(results)}
    if isinstance(results, Mapping) and not hasattr(results, "groups"):
        if not results:
            raise DataError("there is no result to draw: the dict is empty.")
        return {str(label): tree for label, one in results.items() for tree in opened(one).values()}
    if not hasattr(results, "groups"):
        raise DataError(
            f"a picture is drawn from pf.to_datatree(state, history), the path of a saved result, or a dict of these; "
            f"got: {type(results).__name__}."
        )
    return {"": results}


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


def labels_of(trees: Mapping[str, Any], group: str, names: Iterable[str] | None) -> list[str]:
    """Return which components of a filtered group are drawn: those asked for, or the first dozen of all."""
    first = group_of(next(iter(trees.values())), group)
    known = [label for name, one in first.data_vars.items() for label, *_ in components(str(name), one)]
    if names is None:
        return known[:MOST_PANELS]
    wanted = [names] if isinstance(names, str) else list(names)
    chosen = [label for name in wanted for label in known if label == name or label.startswith(f"{name}[")]
    if unknown := [name for name in wanted if not any(one == name or one.startswith(f"{name}[") for one in known)]:
        raise DataError(f"there is no {unknown[0]!r} in the result; it has {known}.")
    return chosen


def group_of(tree: Any, group: str) -> Any:
    """Return a group of a result, or say how to get it."""
    if group not in tree.children:
        cures = {
            "observed_data": "give the observations to to_datatree(state, history, ys)",
            "predictions": "give it to to_datatree(state, history, forecast=pf.predict(...))",
        }
        cure = cures.get(group, "make the result with to_datatree")
        raise DataError(f"the result has no group {group!r}; {cure}.")
    return tree[group]


def component(tree: Any, group: str, label: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the variable that holds a component, with the component's mean and sd over time."""
    for name, variable in group_of(tree, group).data_vars.items():
        for own, mean, sd in components(str(name), variable):
            if own == label:
                return variable, mean, sd
    raise DataError(f"there is no {label!r} in the result.")


def true_value(truth: Mapping[str, Any] | None, label: str) -> float | None:
    """Return the known value of a component such as `phi` or `a[1]`, if there is one."""
    name, _, place = label.partition("[")
    if truth is None or name not in truth:
        return None
    index = tuple(int(number) for number in place.rstrip("]").split(",")) if place else ()
    return float(np.asarray(truth[name])[index])


def thinned(num: int) -> slice:
    """Return which of so many points are drawn."""
    return slice(None, None, max(1, -(-num // MOST_POINTS)))


def gaps(tree: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where nothing was observed: first and last place of each stretch, and how much of it is missing.

    A long run is cut into `MOST_POINTS` stretches, so that fifty thousand gaps cost no more than a few; neighbours of
    which the same share is missing are one stretch.
    """
    seen = tree["observed_data"].data_vars.values()
    missing = np.all([np.isnan(np.asarray(one, float)).reshape(len(one), -1).all(axis=1) for one in seen], axis=0)
    starts = np.arange(len(missing))[thinned(len(missing))]
    share = np.add.reduceat(missing, starts, dtype=float) / np.diff(starts, append=len(missing))
    begins = np.flatnonzero(np.diff(share, prepend=-1.0))
    first, share = starts[begins], share[begins]
    last = np.append(first[1:], len(missing)) - 1
    return first[share > 0], last[share > 0], share[share > 0]


def shade_gaps(axes: Sequence[Any], tree: Any) -> None:
    """Show where nothing was observed, on axes that share their times and have their lines already."""
    if "observed_data" not in tree.children:
        return
    first, last, share = gaps(tree)
    times = np.asarray(axes[0].convert_xunits(tree["observed_data"]["time"].to_numpy()), float)
    around = np.median(np.diff(times)) / 2 if len(times) > 1 else 0.5
    left, right = times[first] - around, times[last] + around
    bottom, top = np.zeros(len(left)), np.ones(len(left))
    corners = np.stack([(left, bottom), (right, bottom), (right, top), (left, top)]).transpose(2, 0, 1)
    polygons = extra("matplotlib.collections", EXTRA).PolyCollection
    colours = extra("matplotlib.colors", EXTRA).to_rgba_array(GAP, share)
    for axis in axes:
        across = axis.get_xaxis_transform()
        axis.add_collection(polygons(corners, transform=across, color=colours, linewidth=0, zorder=0), autolim=False)

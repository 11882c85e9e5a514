"""What pictures take out of results: the trees by label, and the components that were asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paramfilter.errors import DataError
from paramfilter.plots.style import Asked
from paramfilter.results import open_result
from paramfilter.results.tables import components

MOST_PANELS = 12

Results = Any
"""A `DataTree` from `to_datatree`, the path of a saved one, or a dict of these to be compared."""


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


def labels_of(trees: Mapping[str, Any], group: str, asked: Asked) -> list[str]:
    """Return which components of a filtered group are drawn: those asked for, or the first dozen of all."""
    first = group_of(next(iter(trees.values())), group)
    known = [label for name, one in first.data_vars.items() for label, *_ in components(str(name), one)]
    return known[:MOST_PANELS] if asked.names is None else chosen(known, asked)


def chosen(known: Sequence[str], asked: Asked) -> list[str]:
    """Return which labels were asked for, in the order of asking; `a` stands for `a[0]`, `a[1]` and so on too."""
    if asked.names is None:
        return list(known)
    found = []
    for name in asked.names:
        own = [label for label in known if label == name or label.startswith(f"{name}[")]
        if not own:
            raise DataError(f"there is no {name!r} in the result; it has {list(known)}.")
        found += own
    return found


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


def true_value(asked: Asked, label: str) -> float | None:
    """Return the known value of a component such as `phi` or `a[1]`, if there is one."""
    name, _, place = label.partition("[")
    if name not in asked.truth:
        return None
    index = tuple(int(number) for number in place.rstrip("]").split(",")) if place else ()
    return float(np.asarray(asked.truth[name])[index])

"""What pictures take out of results: the trees by label, and the components that were asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paramfilter.errors import DataError
from paramfilter.labels import Component, components_of
from paramfilter.plots.style import Asked
from paramfilter.results import load_result
from paramfilter.results.tables import moments_of

MOST_PANELS = 12

Results = Any
"""A `DataTree` from `to_datatree`, the path of a saved one, or a dict of these to be compared."""


def opened(results: Results) -> dict[str, Any]:
    """Return results by label; one alone has the label ""."""
    if isinstance(results, str | os.PathLike):
        return {"": load_result(results)}
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


def components_drawn(trees: Mapping[str, Any], group: str, asked: Asked) -> list[Component]:
    """Return which components of a filtered group are drawn: those asked for, or the first dozen of all."""
    known = {str(one): one for one in _components(next(iter(trees.values())), group)}
    drawn = [known[label] for label in chosen(list(known), asked)]
    return drawn[:MOST_PANELS] if asked.names is None else drawn


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


def over_time(tree: Any, group: str, one: Component) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the variable that holds a component, with the component's mean and sd over time."""
    if one not in _components(tree, group):
        raise DataError(f"there is no {str(one)!r} in one of the results.")
    variable = tree[group][one.name]
    return variable, *moments_of(variable, one)


def _components(tree: Any, group: str) -> list[Component]:
    variables = group_of(tree, group).data_vars
    return [one for name, variable in variables.items() for one in components_of(str(name), variable.shape[2:])]


def true_value(asked: Asked, one: Component) -> float | None:
    """Return the known value of a component, if there is one."""
    return float(np.asarray(asked.truth[one.name])[one.place]) if one.name in asked.truth else None

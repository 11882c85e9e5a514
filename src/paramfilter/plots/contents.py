"""What pictures take out of results: the trees by label, the components that were asked for, and intervals."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from paramfilter.arguments import did_you_mean
from paramfilter.calibration import Calibration
from paramfilter.errors import DataError
from paramfilter.labels import Component, components_of
from paramfilter.numerics.quantiles import LEVELS
from paramfilter.results import load_result, to_datatree
from paramfilter.results.tables import values_of
from paramfilter.results.tree import QUANTILES
from paramfilter.running import History

MOST_PANELS = 12
INNER = 0.5
"""Level of the darker interval inside."""
CURES = {
    "observed_data": "give the observations to to_datatree(state, history, ys)",
    "predictions": "give it to to_datatree(state, history, forecast=pf.predict(...))",
}


@dataclass(frozen=True)
class Asked:
    """What was asked of a picture, beside the results.

    Attributes:
        names: Variables to draw; None for all.
        truth: Known values by name.
        level: Of the intervals.
        last: How many steps to draw, up to the last one; None for all.
        labels: Texts for axes by what they are called otherwise.
    """

    names: tuple[str, ...] | None
    truth: Mapping[str, Any]
    level: float
    last: int | None
    labels: Mapping[str, str]

    def label(self, name: Any) -> str:
        """Return the text for an axis."""
        return self.labels.get(str(name), str(name))


def opened(results: Any, last: int | None = None) -> dict[str, Any]:
    """Return results by label, cut to the last steps; one alone has the label ""."""
    if isinstance(results, Mapping) and not hasattr(results, "groups"):
        if not results:
            raise DataError("there is no result to draw: the dict is empty.")
        return {str(label): tree for label, one in results.items() for tree in opened(one, last).values()}
    if isinstance(results, str | os.PathLike):
        results = load_result(results)
    elif isinstance(results, tuple) and len(results) in (2, 3) and isinstance(results[1], History):
        results = to_datatree(*results)
    if not hasattr(results, "groups") and not isinstance(results, Calibration):
        raise DataError(
            "a picture is drawn from pf.to_datatree(state, history), the path of a saved result, (state, history), "
            f"or a dict of these; got: {type(results).__name__}."
        )
    return {"": results if last is None else _cut(results, last)}


def _cut(tree: Any, last: int) -> Any:
    if last < 1:
        raise DataError(f"last is the number of steps to draw, at least 1; got {last}.")
    return tree.map_over_datasets(lambda one: one.isel(time=slice(-last, None)) if "time" in one.dims else one)


def first_of(trees: Mapping[str, Any]) -> Any:
    """Return the first result: it has the names, the times and the prior."""
    return next(iter(trees.values()))


def heading_of(trees: Mapping[str, Any]) -> str:
    """Say what a picture is about: model, filter, size, and how many observations up to when."""
    if not all(hasattr(tree, "children") for tree in trees.values()):
        return ""
    first = first_of(trees)
    parts = [" and ".join(dict.fromkeys(tree.attrs["model"] for tree in trees.values()))]
    if len(trees) == 1:
        parts.append(f"{first.attrs['num_particles']} {first.attrs['unit']}, {first.attrs['belief']}")
    times, num = first["filtered"]["time"].to_numpy(), first.attrs["num_observations"]
    until = f" to {np.datetime_as_string(times[-1], unit='D')}" if times.dtype.kind == "M" else ""
    num_missing = first.attrs.get("num_missing")  # of rows; None if the data were not given
    seen = f"{num} steps" if num_missing is None else f"{num - num_missing} observations"
    return " · ".join([*parts, seen + (f" ({num_missing} missing)" if num_missing else "") + until])


def approximately(tree: Any) -> str:
    """Return what a legend adds to intervals of states and one-step forecasts, which node filters keep moments of."""
    return " (normal approximation)" if tree.attrs["unit"] == "nodes" else ""


def time_name(trees: Mapping[str, Any], asked: Asked) -> str:
    """Name the time axis: steps are counted if the data have no times."""
    return asked.label("step" if all(tree.attrs.get("counts_steps", 0) for tree in trees.values()) else "time")


def components_drawn(
    trees: Mapping[str, Any], group: str, asked: Asked, most: int = MOST_PANELS
) -> tuple[list[Component], str]:
    """Return the components of a filtered group to draw, and a remark if some are left out."""
    known = {str(one): one for one in _components(first_of(trees), group)}
    drawn = [known[label] for label in chosen(list(known), asked)]
    if len(drawn) <= most:
        return drawn, ""
    return drawn[:most], f"{most} of {len(drawn)} shown; pass names=[...] for others"


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
    if group not in getattr(tree, "children", {}):
        raise DataError(f"the result has no group {group!r}; {CURES.get(group, 'make the result with to_datatree')}.")
    return tree[group]


def stat(tree: Any, name: str) -> np.ndarray:
    """Return a figure of each step."""
    return np.asarray(group_of(tree, "filter_stats")[name], float)


def variable_of(tree: Any, group: str, one: Component) -> Any:
    """Return the variable that holds a component."""
    if one not in _components(tree, group):
        raise DataError(f"there is no {str(one)!r} in one of the results.")
    return tree[group][one.name]


def draws_of(tree: Any, group: str, one: Component) -> np.ndarray:
    """Return all draws of a component."""
    return np.asarray(group_of(tree, group)[one.name], float)[:, :, *one.place].reshape(-1)


def intervals(variable: Any, one: Component, level: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the central intervals of a level and of `INNER` over time, from the quantiles of the history.

    Between the stored levels they are interpolated, and beyond them extended, on the scale of a normal distribution;
    they stay inside the bounds of a parameter.
    """
    scores = ndtri(LEVELS)
    known = np.stack([values_of(variable, one, name) for name in QUANTILES])

    def at(target: float) -> np.ndarray:
        right = int(np.clip(np.searchsorted(scores, target), 1, len(scores) - 1))
        share = (target - scores[right - 1]) / (scores[right] - scores[right - 1])
        return np.clip((1 - share) * known[right - 1] + share * known[right], *bounds_of(variable))

    return [(at(ndtri(0.5 - inside / 2)), at(ndtri(0.5 + inside / 2))) for inside in (level, INNER)]


def bounds_of(variable: Any) -> tuple[float, float]:
    """Return the ends of a parameter's support."""
    return variable.attrs.get("lower", -np.inf), variable.attrs.get("upper", np.inf)


def column_of(variable: Any, one: Component) -> str:
    """Return the label of a component of an observation: the column it came from, if it came from a table."""
    columns = variable.attrs.get("columns")
    if columns is None:
        return str(one)
    return columns if isinstance(columns, str) else list(columns)[one.place[-1] if one.place else 0]


def observed_components(tree: Any, asked: Asked) -> list[Component]:
    """Return the components of the observations that were asked for, by their names or their columns."""
    observed = group_of(tree, "observed_data").data_vars
    parts = [one for name, variable in observed.items() for one in components_of(str(name), variable.shape[1:])]
    by_column = {column_of(observed[one.name], one): one for one in parts}
    by_label = {str(one): one for one in parts}
    known = by_column if asked.names is not None and all(name in by_column for name in asked.names) else by_label
    return [known[label] for label in chosen(list(known), asked)]


def _components(tree: Any, group: str) -> list[Component]:
    variables = group_of(tree, group).data_vars
    return [one for name, variable in variables.items() for one in components_of(str(name), variable.shape[2:])]


def require_known(trees: Mapping[str, Any], truth: Mapping[str, Any]) -> None:
    """Refuse true values of what no result has."""
    own = [tree for tree in trees.values() if not isinstance(tree, Calibration)]
    known = dict.fromkeys(str(name) for tree in own for node in tree.subtree for name in node.data_vars)
    for name in truth if own else ():
        if name not in known:
            hint = did_you_mean(name, known) or "."
            raise DataError(f"truth has {name!r}, which no result has{hint} The names are {', '.join(known)}.")


def true_path(asked: Asked, one: Component, variable: Any) -> np.ndarray | None:
    """Return the known value of a component at each time of its filtered variable, if there is one."""
    if one.name not in asked.truth:
        return None
    values, (_, num_steps, *own) = np.asarray(asked.truth[one.name], float), variable.shape
    if values.shape == tuple(own):
        return np.full(num_steps, values[one.place])
    if values.shape[1:] != tuple(own) or len(values) < num_steps:
        raise DataError(
            f"truth of {one.name!r} must have the shape {tuple(own)}, or {(num_steps, *own)} if it changes over time; "
            f"got {values.shape}."
        )
    return values[-num_steps:, *one.place]

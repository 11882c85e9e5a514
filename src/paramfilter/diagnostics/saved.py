"""From a saved result back to what the diagnosis looks at."""

from __future__ import annotations

import json
from typing import Any

import jax.numpy as jnp
import numpy as np

from paramfilter.diagnostics.diagnosis import Record, count_distinct
from paramfilter.filters import StepInfo
from paramfilter.labels import PIT


def record_of(tree: Any) -> Record:
    """Return what `diagnostics.examine` needs, from a `DataTree` made by `to_datatree`."""
    stats = tree["filter_stats"]
    figures = {str(name): jnp.asarray(values) for name, values in stats.data_vars.items()}
    ranks = {name.removeprefix(PIT): figures.pop(name) for name in tuple(figures) if name.startswith(PIT)}
    forecasts = {str(name): np.moveaxis(np.asarray(one), 0, 1) for name, one in tree["one_step"].data_vars.items()}
    return Record(
        fingerprint=tree.attrs["fingerprint"],
        time=int(tree.attrs["num_observations"]),
        unit=str(tree.attrs["unit"]),
        outcome=int(tree.attrs["outcome"]),
        num_values=count_distinct(_thetas(tree)),
        skips_outliers=bool(tree.attrs.get("skips_outliers", 0)),
        error=float(tree.attrs["error"]),
        error_not_measured=str(tree.attrs["error_not_measured"]),
        info=StepInfo(pit=_alone(ranks), forecast=_alone(forecasts), **figures),
    )


def _alone(named: dict[str, Any]) -> Any:
    """Return an array without its name if it is the only one, as a model that observes one array has it."""
    return named["y"] if list(named) == ["y"] else named


def _thetas(tree: Any) -> np.ndarray:
    """Return theta of each particle, a row for each."""
    particles = tree["particles"]
    num_particles = particles["log_weight"].size
    names = json.loads(tree.attrs["fingerprint"])["parameters"]
    return np.concatenate([np.reshape(np.asarray(particles[name]), (num_particles, -1)) for name in names], axis=1)

"""From a saved result back to what the diagnosis looks at."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from paramfilter.diagnostics import Record
from paramfilter.filters import StepInfo
from paramfilter.results.tree import PIT


def record_of(tree: Any) -> Record:
    """Return what `diagnostics.examine` needs, from a `DataTree` made by `to_datatree`."""
    stats = tree["filter_stats"]
    figures = {str(name): jnp.asarray(values) for name, values in stats.data_vars.items()}
    ranks = {name.removeprefix(PIT): figures.pop(name) for name in tuple(figures) if name.startswith(PIT)}
    return Record(
        made_by=tree.attrs["made_by"],
        time=int(tree.attrs["num_observations"]),
        mixed_at=int(tree.attrs["mixed_at"]),
        outcome=int(tree.attrs["outcome"]),
        info=StepInfo(pit=ranks["y"] if list(ranks) == ["y"] else ranks, **figures),
    )

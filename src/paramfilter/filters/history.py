"""What a filter says of theta and of the state, at one time and along a series."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import jax
import numpy as np
from jaxtyping import PyTree

from paramfilter.filters.base import Filter
from paramfilter.filters.step_info import StepInfo
from paramfilter.labels import prior_in_brief


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation and quantiles of named parameters, or of a state.

    Attributes:
        mean: A tree of means.
        sd: The same of standard deviations.
        quantiles: The same of the 5, 25, 50, 75 and 95 % quantiles (`LEVELS`), on an axis in front of the value's own.
    """

    mean: PyTree
    sd: PyTree
    quantiles: PyTree


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class History:
    """What `run` records at each step; every leaf is a NumPy array with a leading time axis.

    Attributes:
        theta: Posterior mean, sd and quantiles of each parameter.
        x: Filtered mean, sd and quantiles of the state, as the user's model has it.
        info: What happened: ess, log_evidence_increment, outcome, ...
        filter: The filter that was run; not an array. Histories of filters with the same fingerprint can be joined.
    """

    theta: Summary
    x: Summary
    info: StepInfo
    filter: Filter = field(default=cast(Any, None), metadata={"static": True})

    def __len__(self) -> int:
        return len(self.info.ess)

    def __repr__(self) -> str:
        model = self.filter.model
        size = f"{len(self)} steps" if np.ndim(self.info.ess) else "one step"
        return f"History({size} of {model.name}: {prior_in_brief(model.prior)})"

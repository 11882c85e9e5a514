"""How well each observation of a fleet was forecast, one step ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from paramfilter.filters import StepInfo, tail_probability
from paramfilter.types import Numbers


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FleetScores:
    """Scores of one-step forecasts, with leading axes (series, time); NaN where there is no observation.

    Attributes:
        log_score: Log probability, or log density, of the observation.
        pit: Probability integral transform: where the observation lies in its forecast, between 0 and 1.
    """

    log_score: Numbers
    pit: PyTree

    @classmethod
    def of(cls, info: StepInfo) -> FleetScores:
        """Take the scores of one step."""
        return cls(info.log_evidence_increment, info.pit)

    @classmethod
    def joined(cls, parts: list[Any], num_times: int) -> FleetScores:
        """Join the scores of successive windows; NaN up to the last time where no series has an observation."""

        def join(*each):
            joined = np.concatenate(each, axis=1)[:, :num_times]
            rest = [(0, 0), (0, num_times - joined.shape[1]), *[(0, 0)] * (joined.ndim - 2)]
            return np.pad(joined, rest, constant_values=np.nan)

        return jax.tree.map(join, *parts)

    @property
    def tail_probability(self) -> PyTree:
        """How surprising each observation was: an anomaly score, uniform between 0 and 1 if the model is right."""
        return tail_probability(self.pit)

    def __repr__(self) -> str:
        num_series, num_times = np.shape(self.log_score)
        return f"FleetScores({num_series} series, {num_times} observations; mean {np.nanmean(self.log_score):.3f} nats)"

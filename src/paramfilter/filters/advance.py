"""One compiled program for `step` and `run`: so many steps over the first rows of a window of data.

The window has a fixed length and the number of steps is an argument. So data of any length, and one more observation,
use the same program: what `run` has compiled, `step` finds, and both give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from paramfilter.filters.loop import next_state
from paramfilter.filters.posterior import mixture_moments
from paramfilter.filters.rows import as_points, as_theta, ravel_rows, unravel_rows
from paramfilter.filters.state import FilterState, StepInfo
from paramfilter.labels import prior_in_brief
from paramfilter.numerics.quantiles import weighted_quantiles
from paramfilter.numerics.weights import mixture_mean_and_variance
from paramfilter.types import Inputs, Observation

if TYPE_CHECKING:
    from paramfilter.filters.base import Filter
    from paramfilter.filters.particle_filter import ParticleFilter

WINDOW = 256
"""Rows of data that one call of the program can take."""


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


@dataclass(frozen=True, eq=False)
class Maker:
    """The filter that made a record; equal to another with the same fingerprint, so that records can be joined."""

    filter: Filter

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Maker) and other.filter.fingerprint == self.filter.fingerprint

    def __hash__(self) -> int:
        return hash(self.filter.fingerprint)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class History:
    """What `run` records at each step; every leaf is a NumPy array with a leading time axis.

    Attributes:
        theta: Posterior mean, sd and quantiles of each parameter.
        x: Filtered mean, sd and quantiles of the state, as the user's model has it.
        info: What happened: ess, log_evidence_increment, outcome, ...
        maker: Whose record it is; not an array.
    """

    theta: Summary
    x: Summary
    info: StepInfo
    maker: Maker = field(metadata={"static": True})

    @property
    def filter(self) -> Filter:
        """The filter that was run."""
        return self.maker.filter

    def __len__(self) -> int:
        return len(self.info.ess)

    def __repr__(self) -> str:
        model = self.filter.model
        size = f"{len(self)} steps" if np.ndim(self.info.ess) else "one step"
        return f"History({size} of {model.name}: {prior_in_brief(model.prior)})"


def advance(
    filter: ParticleFilter, state: FilterState, ys: Observation, inputs: Inputs, num_steps: Int[Array, ""]
) -> tuple[FilterState, History, StepInfo]:
    """Take `num_steps` steps over the first rows of a window.

    Returns:
        The new state; a history of `WINDOW` rows, of which the first `num_steps` are filled; the info of the last step.
    """

    @jax.jit  # so that it is traced once, and not for its shapes and the loop
    def record_step(state, index):
        y, inputs_now = jax.tree.map(lambda leaf: leaf[index], (ys, inputs))
        state, info = filter.compiled(next_state)(state, y, inputs_now)
        return state, summarise(filter, state, info)

    shapes = jax.eval_shape(record_step, state, num_steps)[1]
    records = jax.tree.map(lambda leaf: jnp.zeros((WINDOW, *leaf.shape), leaf.dtype), shapes)

    def turn(index, carry):
        state, records = carry
        state, record = record_step(state, index)
        return state, jax.tree.map(lambda rows, row: rows.at[index].set(row), records, record)

    state, records = jax.lax.fori_loop(0, num_steps, turn, (state, records))
    return state, records, jax.tree.map(lambda rows: rows[num_steps - 1], records.info)


def summarise(filter: ParticleFilter, state: FilterState, info: StepInfo) -> History:
    """Return one row of the history."""
    moments, weights = mixture_moments(filter, state), jnp.exp(state.log_weights)
    x = jax.tree.map(lambda leaf: leaf.astype(float), state.x)
    mean, variance = state_mean_and_variance(filter, state)
    # The values of theta that moved the particles follow the posterior too, and have its shape.
    parameters = filter.model.parameters
    of_theta = as_theta(parameters, weighted_quantiles(weights, as_points(parameters, state.z)))
    of_state = unravel_rows(mean, weighted_quantiles(weights, ravel_rows(x)))
    return History(
        theta=Summary(moments.mean, jax.tree.map(jnp.sqrt, moments.variance), of_theta),
        x=Summary(mean, jax.tree.map(jnp.sqrt, variance), of_state),
        info=info,
        maker=Maker(filter),
    )


def state_mean_and_variance(filter: ParticleFilter, state: FilterState) -> tuple[PyTree, PyTree]:
    """Return filtered mean and variance of the state."""
    x = jax.tree.map(lambda leaf: leaf.astype(float), state.x)
    return mixture_mean_and_variance(state.log_weights, x, jax.tree.map(jnp.zeros_like, x))


def window_of(tree: Any, start: int = 0, size: int = WINDOW, axis: int = 0) -> Any:
    """Cut `size` rows from `start` out of each array, filled up with zeros that no step will see.

    NumPy does it: JAX would compile a program for each length.
    """

    def cut(leaf):
        rows = np.asarray(leaf)[(slice(None),) * axis + (slice(start, start + size),)]
        if rows.shape[axis] == size:
            return rows
        window = np.zeros((*rows.shape[:axis], size, *rows.shape[axis + 1 :]), rows.dtype)
        window[(slice(None),) * axis + (slice(rows.shape[axis]),)] = rows
        return window

    return jax.tree.map(cut, tree)

"""Run a filter over an array of observations, and look ahead.

`run` walks chunks of one compiled loop whose number of turns is an argument, so that any length of data uses one
compile and any way of cutting a stream into pieces gives the same bits as stepping through it. Between chunks a
progress bar may speak.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree
from tqdm import tqdm

from paramfilter.arguments import require_key, require_kind, whole_number
from paramfilter.errors import DataError
from paramfilter.filters import FilterState, ParticleFilter, StepInfo, draw_joint, mixture_moments
from paramfilter.model import as_inputs, strongly_typed
from paramfilter.observations import Observations
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.weights import mixture_mean_and_variance

CHUNK = 256
"""Most steps between two looks at the clock."""

FIRST_CHUNK = 4
"""Steps of the first chunk, which tells how fast the filter is."""

SECONDS_BETWEEN_REPORTS = 0.5


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation of named parameters, or of a state."""

    mean: PyTree
    sd: PyTree


@dataclass(frozen=True, eq=False)
class Maker:
    """The filter that made a record; equal to another with the same fingerprint, so that records can be joined."""

    filter: ParticleFilter

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Maker) and other.filter.fingerprint == self.filter.fingerprint

    def __hash__(self) -> int:
        return hash(self.filter.fingerprint)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class History:
    """What `run` records at each step; every leaf has a leading time axis.

    Attributes:
        theta: Posterior mean and sd of each parameter.
        x: Filtered mean and sd of the state, as the user's model has it.
        info: What happened: ess, log_evidence_increment, outcome, ...
        maker: Whose record it is; not an array.
    """

    theta: Summary
    x: Summary
    info: StepInfo
    maker: Maker = field(metadata={"static": True})

    @property
    def filter(self) -> ParticleFilter:
        """The filter that was run."""
        return self.maker.filter

    def __len__(self) -> int:
        return len(self.info.ess)


def run(
    filter: ParticleFilter,
    state: FilterState,
    ys: Observation | Observations,
    inputs: Inputs = None,
    *,
    progress: bool | None = None,
) -> tuple[FilterState, History]:
    """Take in many observations.

    Args:
        filter: The filter.
        state: Its state so far, from `filter.init` or from an earlier run.
        ys: Observations with a leading time axis, NaN where missing; or what `observations_from` took from a table,
            inputs included.
        inputs: A pytree with the same leading axis, or None.
        progress: Show a bar with rate, ESS and time left; None shows it on a terminal only.

    Returns:
        The state after the last observation, and a `History`.
    """
    require_kind(filter, ParticleFilter, "filter", "The call is run(filter, state, ys).")
    filter.require_own(state)
    if isinstance(ys, Observations):
        ys, inputs = ys.ys, ys.inputs
    ys = filter.as_observation(ys, leading=("time",))
    num_steps = _common_length(ys)
    inputs = as_inputs(inputs, "ys", num_steps)
    pieces, start, num_turns = [], 0, FIRST_CHUNK
    # disable=None is tqdm's own word for "only on a terminal".
    with tqdm(total=num_steps, unit="step", smoothing=0, disable=None if progress is None else not progress) as bar:
        bar.set_description_str("compiling")
        while start < num_steps:
            num_turns = min(num_turns, num_steps - start)
            chunk = jax.tree.map(lambda leaf, begin=start: _window(leaf, begin), (ys, inputs))
            began = time.perf_counter()
            state, records = filter.compiled(_run_chunk)(state, *chunk, jnp.int32(num_turns))
            pieces.append(jax.tree.map(lambda leaf, size=num_turns: np.asarray(leaf)[:size], records))
            elapsed = time.perf_counter() - began
            is_first = start == 0
            if is_first:  # compiling is over, and says nothing about the time that is left
                bar.set_description_str("", refresh=False)
                bar.start_t = bar.last_print_t = time.time()
                bar.initial = num_turns
            start += num_turns
            bar.update(num_turns)
            bar.set_postfix_str(f"ess={pieces[-1].info.ess[-1]:.0f}/{filter.num_particles}", refresh=is_first)
            num_turns = _next_turns(num_turns, elapsed)
    return state, join(*pieces)


def record(filter: ParticleFilter, state: FilterState, info: StepInfo) -> History:
    """Return a history of one step, for those who call `step` themselves.

    Args:
        filter: The filter.
        state: Its state after the step.
        info: What the step returned.
    """
    return jax.tree.map(lambda leaf: leaf[None], filter.compiled(summarise)(state, info))


def join(*histories: History) -> History:
    """Put histories of one stream together, in the order of time."""
    return jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *histories)


def _run_chunk(
    filter: ParticleFilter, state: FilterState, ys: Observation, inputs: Inputs, num_turns: Int[Array, ""]
) -> tuple[FilterState, History]:
    """Take `num_turns` steps over the first rows of a chunk of fixed length."""

    def record_step(state, index):
        y, inputs_now = jax.tree.map(lambda leaf: leaf[index], (ys, inputs))
        state, info = filter.step(state, y, inputs_now)
        return state, summarise(filter, state, info)

    shapes = jax.eval_shape(record_step, state, num_turns)[1]
    records = jax.tree.map(lambda leaf: jnp.zeros((CHUNK, *leaf.shape), leaf.dtype), shapes)

    def turn(index, carry):
        state, records = carry
        state, record = record_step(state, index)
        return state, jax.tree.map(lambda rows, row: rows.at[index].set(row), records, record)

    return jax.lax.fori_loop(0, num_turns, turn, (state, records))


def summarise(filter: ParticleFilter, state: FilterState, info: StepInfo) -> History:
    """Return one row of the history."""
    moments = mixture_moments(filter, state)
    means, variances = jax.tree.map(lambda leaf: leaf.astype(float), jax.vmap(filter.model.state_moments)(state.x))
    mean, variance = mixture_mean_and_variance(state.log_weights, means, variances)
    return History(
        theta=Summary(moments.mean, jax.tree.map(jnp.sqrt, moments.variance)),
        x=Summary(mean, jax.tree.map(jnp.sqrt, variance)),
        info=info,
        maker=Maker(filter),
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Forecast:
    """Draws of the future, equally weighted: each leaf has leading axes (draw, time)."""

    x: PyTree
    y: PyTree


def predict(
    key: KeyArray,
    filter: ParticleFilter,
    state: FilterState,
    num_steps: int,
    inputs: Inputs = None,
    *,
    num_draws: int | None = None,
) -> Forecast:
    """Draw states and observations of the next steps, with theta drawn from the posterior.

    Args:
        key: A typed key.
        filter: The filter.
        state: Its state now.
        num_steps: How far to look ahead.
        inputs: Inputs of the coming steps with a leading time axis, or None.
        num_draws: How many futures; None for as many as there are particles.
    """
    call = "The call is predict(key, filter, state, num_steps)."
    require_key(key, "predict(key, filter, state, num_steps)")
    require_kind(filter, ParticleFilter, "filter", call)
    filter.require_own(state)
    num_steps = whole_number(num_steps, "num_steps", 1, call)
    if num_draws is not None:
        num_draws = whole_number(num_draws, "num_draws", 1, "Leave it out for as many as there are particles.")
    inputs = as_inputs(inputs, "num_steps", num_steps)
    key_choose, key_future = jax.random.split(key)
    keys = jax.random.split(key_future, num_draws or filter.num_particles)
    times = jnp.arange(num_steps)  # carries the number of steps into the compiled function as a shape
    return filter.compiled(_futures)(state, key_choose, keys, times, inputs)


def _futures(filter: ParticleFilter, state: FilterState, key_choose, keys, times, inputs) -> Forecast:
    model = filter.model.original
    keys_theta, keys_steps = jnp.swapaxes(jax.vmap(jax.random.split)(keys), 0, 1)
    x, z = draw_joint(filter, state, key_choose, keys_theta)

    def future(key, z_one, x_one):
        theta = model.parameters.constrain(z_one)

        def step(x_prev, step_input):
            index, inputs_now = step_input
            key_move, key_observe = jax.random.split(jax.random.fold_in(key, index))
            x_next = strongly_typed(model.sample_transition(key_move, theta, x_prev, inputs_now))
            return x_next, (x_next, model.sample_observation(key_observe, theta, x_next, inputs_now))

        return jax.lax.scan(step, x_one, (times, inputs))[1]

    return Forecast(*jax.vmap(future)(keys_steps, z, x))


def _common_length(ys: Observation) -> int:
    lengths = {len(leaf) for leaf in jax.tree.leaves(ys)}
    if len(lengths) != 1:
        raise DataError(
            f"all parts of ys must have a leading time axis of the same length; got lengths {sorted(lengths)}. Fill "
            "the shorter ones up with NaN, for missing."
        )
    if lengths == {0}:
        raise DataError("ys holds no observation; its leading axis is time. Give one at least, or use predict.")
    return lengths.pop()


def _window(leaf: Array, start: int) -> Array:
    """Return CHUNK rows from `start`, filled up with zeros that no turn will see."""
    rows = leaf[start : start + CHUNK]
    return jnp.concatenate([rows, jnp.zeros((CHUNK - len(rows), *rows.shape[1:]), rows.dtype)])


def _next_turns(num_turns: int, elapsed: float) -> int:
    """Aim at two reports a second, growing by at most four."""
    wanted = num_turns * SECONDS_BETWEEN_REPORTS / max(elapsed, 1e-6)
    return int(np.clip(wanted, 1, min(4 * num_turns, CHUNK)))

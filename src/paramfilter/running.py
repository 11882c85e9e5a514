"""Run a filter over an array of observations, and forecast.

`run` calls `Engine.advance` for one window of data after the other, so that any length of data uses
one compile and any way of cutting a stream into pieces gives the same bits as stepping through it. Between the calls it
updates a progress bar.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from tqdm import tqdm

from paramfilter.arguments import require_key, require_kind, whole_number
from paramfilter.data import Observations, common_length
from paramfilter.filters import Engine, Filter, History, Summary
from paramfilter.filters.window import WINDOW, window_of
from paramfilter.tracing import strongly_typed
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.waiting import waiting

__all__ = ["Forecast", "History", "Summary", "catch_up", "concat_histories", "history_row", "predict", "run"]

FIRST_STEPS = 4
"""Steps of the first call, which tells how fast the filter is."""

SECONDS_BETWEEN_REPORTS = 0.5


def run(
    filter: Filter,
    state: Any,
    ys: Observation | Observations,
    inputs: Inputs = None,
    *,
    progress: bool | None = None,
) -> tuple[Any, History]:
    """Run a filter over a sequence of observations.

    Args:
        filter: The filter, such as `auto_filter(model)`.
        state: Its current state, from `filter.init` or an earlier run.
        ys: Observations with a leading time axis, NaN where missing; or the `Observations` that
            `observations_from_table` returns, which include inputs.
        inputs: Covariates with the same leading axis; None if the model uses none.
        progress: True shows a progress bar with rate, ESS and remaining time; None shows it on a terminal only.

    Returns:
        The state after the last observation, and a `History` with one row per observation.

    Example:
        >>> import jax, paramfilter as pf
        >>> filter = pf.sir_filter(pf.models.linear_gaussian(), 100)
        >>> state, history = pf.run(filter, filter.init(jax.random.key(0)), [0.1, float("nan"), 0.3], progress=False)
        >>> int(state.time), history.info.ess.shape
        (3, (3,))
    """
    ys, inputs, num_steps = _checked(filter, state, ys, inputs, "The call is run(filter, state, ys).")
    pieces, start, num_turns = [], 0, FIRST_STEPS
    # For tqdm, disable=None means: only on a terminal.
    with tqdm(total=num_steps, unit="step", smoothing=0, disable=None if progress is None else not progress) as bar:
        bar.set_description_str("compiling")
        while start < num_steps:
            num_turns = min(num_turns, num_steps - start)
            began, is_first = time.perf_counter(), start == 0
            with waiting("compiling", bar) if is_first else nullcontext():
                rows, inputs_now = window_of((ys, inputs), start)
                state, records = filter.engine.advance(state, rows, inputs_now, num_turns)
                pieces.append(jax.tree.map(lambda leaf, size=num_turns: np.asarray(leaf)[:size], records))
            elapsed = time.perf_counter() - began
            if is_first:  # compiling is over, and says nothing about the time that is left
                bar.set_description_str("", refresh=False)
                bar.start_t = bar.last_print_t = time.time()
                bar.initial = num_turns
            start += num_turns
            bar.update(num_turns)
            bar.set_postfix_str(f"ess={pieces[-1].info.ess[-1]:.0f}/{filter.size}", refresh=is_first)
            num_turns = _next_turns(num_turns, elapsed)
    return state, replace(concat_histories(*pieces), filter=filter)


def catch_up(filter: Filter, state: Any, ys: Observation | Observations, inputs: Inputs = None) -> Any:
    """Process a sequence of observations without a history: faster than `run`, and equal to it up to rounding.

    Args:
        filter: The filter, such as `auto_filter(model)`.
        state: Its current state, from `filter.init`, `step` or `run`.
        ys: Observations with a leading time axis; NaN where missing.
        inputs: Covariates with the same leading axis; None if the model uses none.

    Returns:
        The state after the last observation.

    Example:
        >>> import jax, paramfilter as pf
        >>> filter = pf.sir_filter(pf.models.linear_gaussian(), 100)
        >>> state = pf.catch_up(filter, filter.init(jax.random.key(0)), [0.1, float("nan"), 0.3])
        >>> int(state.time)
        3
    """
    ys, inputs, num_steps = _checked(filter, state, ys, inputs, "The call is catch_up(filter, state, ys).")
    for start in range(0, num_steps, WINDOW):
        rows, inputs_now = window_of((ys, inputs), start)
        state, _ = filter.engine.advance(state, rows, inputs_now, min(WINDOW, num_steps - start), "none")
    return state


def _checked(
    filter: Filter, state: Any, ys: Observation | Observations, inputs: Inputs, call: str
) -> tuple[Observation, Inputs, int]:
    """Return observations and inputs as arrays, and how many there are."""
    require_kind(filter, Filter, "filter", call)
    filter.engine.require_own(state)
    if isinstance(ys, Observations):
        ys, inputs = ys.ys, ys.inputs
    ys = filter.engine.as_observation(ys, leading=("time",))
    num_steps = common_length(ys)
    return ys, filter.engine.as_inputs(inputs, "ys", num_steps), num_steps


def history_row(filter: Filter, state: Any, info: Any) -> History:
    """Return the history of one step, if you call `step` yourself.

    Args:
        filter: The filter that made the step.
        state: Its state after the step.
        info: The second value that `step` returned.

    Returns:
        A `History` with one row; join rows with `concat_histories`.
    """
    row = jax.tree.map(lambda leaf: np.asarray(leaf)[None], filter.engine.summary(state, info))
    return replace(row, filter=filter)


def concat_histories(*histories: History) -> History:
    """Concatenate histories of one stream, given in order of time."""
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *histories)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Forecast:
    """Equally weighted draws of the future.

    Attributes:
        x: States, with leading axes (draw, time).
        y: Observations, with leading axes (draw, time).
    """

    x: PyTree
    y: PyTree

    def __repr__(self) -> str:
        num_draws, num_steps = np.shape(jax.tree.leaves(self.y)[0])[:2]
        return f"Forecast({num_draws} draws of {num_steps} steps)"


def predict(
    key: KeyArray,
    filter: Filter,
    state: Any,
    num_steps: int,
    inputs: Inputs = None,
    *,
    num_draws: int | None = None,
) -> Forecast:
    """Draw states and observations of the next steps. Each draw uses its own theta from the posterior.

    Args:
        key: Random key, `jax.random.key(seed)`.
        filter: The filter, such as `auto_filter(model)`.
        state: Its current state.
        num_steps: Number of steps ahead.
        inputs: Covariates of these steps, with a leading time axis; None if the model uses none.
        num_draws: Number of paths; None draws as many as the filter has particles or nodes.

    Returns:
        A `Forecast` with `x` and `y`, each with leading axes (draw, time).
    """
    call = "The call is predict(key, filter, state, num_steps)."
    require_key(key, "predict(key, filter, state, num_steps)")
    require_kind(filter, Filter, "filter", call)
    engine = filter.engine
    engine.require_own(state)
    num_steps = whole_number(num_steps, "num_steps", 1, call)
    if num_draws is not None:
        num_draws = whole_number(num_draws, "num_draws", 1, "Leave it out for as many as there are particles.")
    inputs = engine.as_inputs(inputs, "num_steps", num_steps)
    key_choose, key_future = jax.random.split(key)
    keys = jax.random.split(key_future, num_draws or engine.size)
    times = np.arange(num_steps)  # carries the number of steps into the compiled function as a shape
    return engine.compiled(futures)(state, key_choose, keys, times, inputs)


def futures(engine: Engine, state: Any, key_choose, keys, times, inputs) -> Forecast:
    """Draw a future for each key, as long as `times`; inside a trace."""
    model = engine.model
    keys_theta, keys_steps = jnp.swapaxes(jax.vmap(jax.random.split)(keys), 0, 1)
    x, z = engine.draw_joint(state, key_choose, keys_theta)

    def future(key, z_one, x_one):
        theta = model.parameters.constrain(z_one)

        def step(x_prev, step_input):
            index, inputs_now = step_input
            key_move, key_observe = jax.random.split(jax.random.fold_in(key, index))
            x_next = strongly_typed(model.sample_transition(key_move, theta, x_prev, inputs_now))
            return x_next, (x_next, model.sample_observation(key_observe, theta, x_next, inputs_now))

        return jax.lax.scan(step, x_one, (times, inputs))[1]

    return Forecast(*jax.vmap(future)(keys_steps, z, x))


def _next_turns(num_turns: int, elapsed: float) -> int:
    """Aim at two reports a second, growing by at most four."""
    wanted = num_turns * SECONDS_BETWEEN_REPORTS / max(elapsed, 1e-6)
    return int(np.clip(wanted, 1, min(4 * num_turns, WINDOW)))

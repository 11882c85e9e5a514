"""Simulation-based calibration of a filter along a stream.

Draw theta from the prior and a series from the model, run the filter, and rank the truth among draws from the
filter's posterior at several times. Over many runs the ranks are uniform if the posterior is right, whatever the model;
the ranks of an overconfident filter pile up at both ends (Talts et al. 2018, arXiv:1804.06788). Ranked are each
parameter, each component of x_t, and log p(y_t | x_t, theta), which depends on the joint distribution (Modrak et al.
2023, Bayesian Analysis, on data-dependent test quantities).

It tests model, belief and number of particles together, and needs no data: run it before a long stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Shaped
from tqdm import tqdm

from paramfilter.arguments import kind_of, require_key, require_kind
from paramfilter.errors import DataError
from paramfilter.filters import Engine, Filter
from paramfilter.inspect.probe import probe
from paramfilter.model import simulate
from paramfilter.numerics.ranks import uniformity_p_value
from paramfilter.types import Inputs, KeyArray

NUM_DRAWS = 199
"""Posterior draws among which a truth is ranked."""

BATCH = 50
"""Runs that share one call."""

LOG_LIKELIHOOD = "log p(y | x, theta)"


@dataclass(frozen=True, eq=False)
class Calibration:
    """Ranks of the truth among posterior draws, between 0 and 1.

    Attributes:
        times: Numbers of observations after which the truth was ranked.
        quantities: Names of the ranked quantities: parameters, state components, log likelihood.
        ranks: Ranks with axes (run, time, quantity); NaN where a run could not be ranked.
        outcome: All flags raised so far, with axes (run, time).
    """

    times: tuple[int, ...]
    quantities: tuple[str, ...]
    ranks: Float[np.ndarray, "run time quantity"]
    outcome: Int[np.ndarray, "run time"]

    def cover(self, level: float = 0.9) -> dict[str, Float[np.ndarray, " time"]]:
        """Return how often the central interval contains the truth; close to `level` if the filter is calibrated.

        Args:
            level: Probability of the interval.
        """
        inside = np.abs(self.ranks - 0.5) < 0.5 * level
        shares = np.sum(inside, axis=0) / np.sum(~np.isnan(self.ranks), axis=0)
        return {name: shares[:, index] for index, name in enumerate(self.quantities)}

    def chance(self, num_bins: int = 20) -> dict[str, Float[np.ndarray, " time"]]:
        """Return the p-value of a chi-square test that the ranks are uniform.

        Args:
            num_bins: Number of bins of the test.
        """
        found = np.empty(self.ranks.shape[1:])
        for place in np.ndindex(found.shape):
            found[place] = uniformity_p_value(self.ranks[:, *place], NUM_DRAWS + 1, num_bins)
        return {name: found[:, index] for index, name in enumerate(self.quantities)}

    def __str__(self) -> str:
        width = max(len(name) for name in self.quantities) + 2
        lines = [f"Coverage of 90 % intervals in {len(self.ranks)} runs:"]
        lines.append(" " * width + "".join(f"{f't={time}':>10}" for time in self.times))
        for name, shares in self.cover().items():
            lines.append(f"{name:<{width}}" + "".join(f"{share:>10.1%}" for share in shares))
        spread = np.sqrt(0.9 * 0.1 / len(self.ranks))
        lines.append(f"Expected if calibrated: {0.9 - 2 * spread:.1%} to {0.9 + 2 * spread:.1%} (two standard errors).")
        return "\n".join(lines)


def calibrate(
    key: KeyArray,
    filter: Filter,
    times: Sequence[int],
    num_runs: int,
    inputs: Inputs = None,
    initial_inputs: Inputs = None,
    *,
    progress: bool | None = None,
) -> Calibration:
    """Run a filter on series simulated from its own model, and rank the true values in its posteriors.

    Args:
        key: Random key, `jax.random.key(seed)`.
        filter: The filter to test.
        times: Numbers of observations after which to rank, such as `[100, 1000]`.
        num_runs: Number of series, each with its own theta from the prior. 200 measure a coverage of 90 % to 2 %.
        inputs: Covariates with a leading time axis, the same for all series; None if the model uses none.
        initial_inputs: Covariates for the model's `initial`; None if it uses none.
        progress: True shows a progress bar; None shows it on a terminal only.

    Returns:
        A `Calibration`. Print it to see the coverage of 90 % intervals; plot it with `plots.ranks`.

    Example:
        >>> import jax, paramfilter as pf
        >>> filter = pf.storvik_filter(pf.models.linear_gaussian(), 50)
        >>> calibrate(jax.random.key(0), filter, times=[5], num_runs=10, progress=False).quantities
        ('phi', 'x', 'log p(y | x, theta)')
    """
    require_key(key, "calibrate(key, filter, times, num_runs)")
    require_kind(filter, Filter, "filter", "The call is calibrate(key, filter, times, num_runs).")
    if not isinstance(times, Iterable):
        raise DataError(f"times must be a list of numbers, got {kind_of(times)}. Write [{times!r}] for a single time.")
    times = tuple(sorted({int(time) for time in times}))
    if not times or times[0] < 1 or num_runs < 1:
        raise DataError(
            f"calibrate needs times of at least 1 and at least one run; got {times} and {num_runs}. Try "
            "calibrate(key, filter, times=[100, 1000], num_runs=200)."
        )
    pieces = []
    with tqdm(total=num_runs, unit="run", disable=None if progress is None else not progress) as bar:
        for first in range(0, num_runs, BATCH):
            keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(first, min(first + BATCH, num_runs)))
            pieces.append(_look(filter.engine, keys, times, inputs, initial_inputs))
            bar.update(len(keys))
    together = [np.concatenate([piece[part] for piece in pieces]) for part in range(2)]
    return Calibration(times, _quantities(filter), *together)


def _look(
    engine: Engine, keys: Shaped[Array, " run"], times: tuple[int, ...], inputs: Inputs, initial_inputs: Inputs
) -> tuple[np.ndarray, ...]:
    """Take a batch of runs through all times; return ranks and outcome, each (run, time, ...)."""
    clock = jnp.arange(times[-1])  # its length says how many steps to simulate
    truth, xs, ys, states = engine.compiled(_begin)(keys, clock, inputs, initial_inputs)
    looks, start = [], 0
    for time in times:
        states = engine.compiled(_advance)(states, ys, inputs, jnp.int32(start), jnp.int32(time))
        now = jax.tree.map(lambda leaf, last=time - 1: leaf[:, last], (xs, ys))
        inputs_now = jax.tree.map(lambda leaf, last=time - 1: leaf[last], inputs)
        ranks = engine.compiled(_rank)(keys, states, truth, *now, inputs_now, jnp.int32(time))
        looks.append([np.asarray(part) for part in (ranks, states.outcome)])
        start = time
    return tuple(np.stack(parts, axis=1) for parts in zip(*looks, strict=True))


def _begin(engine: Engine, keys, clock, inputs, initial_inputs):
    def one(key):
        key_theta, key_data, key_filter, _ = jax.random.split(key, 4)
        z = engine.model.parameters.sample(key_theta)
        theta = engine.model.parameters.constrain(z)
        xs, ys = simulate(key_data, engine.model, theta, len(clock), inputs, initial_inputs)
        return z, xs, engine.as_observation(ys, ("time",)), engine.init(key_filter, engine.as_inputs(initial_inputs))

    return jax.vmap(one)(keys)


def _advance(engine: Engine, states: Any, ys, inputs, start, stop):
    # One after the other: side by side, a step would pay for what only some times ask for, such as new nodes.
    def one(run):
        state, series = run

        def turn(index, state):
            y, inputs_now = jax.tree.map(lambda leaf: leaf[index], (series, inputs))
            return engine.step(state, y, inputs_now)[0]

        return jax.lax.fori_loop(start, stop, turn, state)

    return jax.lax.map(one, (states, ys))


def _rank(engine: Engine, keys, states: Any, truth, x, y, inputs, time):
    model = engine.model

    def quantities(z_one, x_one, y_one):
        theta = model.parameters.constrain(z_one)
        score = model.observation_log_prob(theta, x_one, y_one, inputs)
        return jnp.concatenate([z_one, ravel_pytree(x_one)[0].astype(z_one.dtype), score[None]])

    def one(key, state, z_true, x_true, y_one):
        key_ties, key_choose, key_draw = jax.random.split(jax.random.fold_in(jax.random.split(key, 4)[3], time), 3)
        x_drawn, z_drawn = engine.draw_joint(state, key_choose, jax.random.split(key_draw, NUM_DRAWS))
        drawn = jax.vmap(quantities, (0, 0, None))(z_drawn, x_drawn, y_one)
        true = quantities(z_true, x_true, y_one)
        below, ties = jnp.sum(drawn < true, axis=0), jnp.sum(drawn == true, axis=0)
        ranks = (below + jax.random.uniform(key_ties, true.shape) * (1 + ties)) / (NUM_DRAWS + 1)
        return jnp.where(jnp.isfinite(true) & jnp.all(jnp.isfinite(drawn), axis=0), ranks, jnp.nan)

    return jax.vmap(one)(keys, states, truth, x, y)


def _quantities(filter: Filter) -> tuple[str, ...]:
    size = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(probe(filter.model).x))
    state_names = ["x"] if size == 1 else [f"x[{index}]" for index in range(size)]
    return (*filter.model.parameters.coordinate_names, *state_names, LOG_LIKELIHOOD)

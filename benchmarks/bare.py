"""The arithmetic of three filters written bare: JAX alone, one model each, tuned by hand, no checks and no health.

They are the yardstick of `step`: what a step must cost at least, on the same engine. Each function returns a filter,
that is a first state, a step, and draws of theta with log weights to see that it computes what the library does, for

- `taylor`: SIN with the paper's polynomial of degree 14, moved by the transition;
- `grid`: SIN with one grid for all particles, four islands, looking ahead; the grid moves when it has to;
- `conjugate`: AR(1) with an unknown coefficient, exact beliefs, four islands, looking ahead (the default).

What is done by hand here: random numbers for all particles in one call; constants folded; ancestors by counting;
extremes by masked minima; sums of short rows as matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class BareFilter(NamedTuple):
    """A filter as plain functions."""

    start: Any
    step: Callable[[Any, jax.Array], Any]
    draws: Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]]


ISLANDS = 4
PRIOR_SD, OBSERVATION_SD = 0.2, 0.1


def systematic(shift, weights):
    """Return the ancestors of each island's particles; rows of weights, one shift a row."""
    size = weights.shape[1]
    ends = jnp.cumsum(weights, axis=1)
    before = jnp.ceil(ends * (size / ends[:, -1:]) - shift[:, None]).astype(jnp.int32)
    # The counts of all islands lie one after the other; each island has its own slot for what ends beyond the last.
    offsets = (size + 1) * jnp.arange(len(weights), dtype=jnp.int32)[:, None]
    counts = jnp.zeros(len(weights) * (size + 1), jnp.int32).at[(jnp.clip(before, 0, size) + offsets).ravel()].add(1)
    ancestors = jnp.cumsum(counts.reshape(-1, size + 1)[:, :size], axis=1)
    return (jnp.minimum(ancestors, size - 1) + size * jnp.arange(len(weights))[:, None]).ravel()


class TaylorState(NamedTuple):
    """Sums are compensated: `sums` and what they have lost, 15 coefficients each, padded to 16."""

    key: jax.Array
    time: jax.Array
    x: jax.Array
    sums: jax.Array
    log_weights: jax.Array


ORDER, ZOOMS, ZOOM_POINTS, FINE_POINTS, DEPTH = 7, 6, 17, 96, 14.0
REACH = 16.0
"""Of the window of theta, in prior sds."""

_FACTORIALS = np.cumprod([1.0, *range(1, ORDER + 1)])
_TAYLOR = np.array([0.0 if k % 2 == 0 else (-1.0) ** (k // 2) / _FACTORIALS[k] for k in range(ORDER + 1)])


def taylor(num: int) -> BareFilter:
    """Make the paper's filter on SIN."""
    start = TaylorState(
        jax.random.key(0), jnp.int32(0), jax.random.normal(jax.random.key(1), (num,)), jnp.zeros((num, 32)),
        jnp.zeros(num),
    )  # fmt: skip

    def log_density(coefficients, u):
        total = jnp.broadcast_to(coefficients[:, 14:15], u.shape)
        for k in range(13, -1, -1):
            total = total * u + coefficients[:, k : k + 1]
        return total - 0.5 * u * u

    def draw(sums, uniform):
        coefficients = sums[:, :16] + sums[:, 16:]

        def zoom(_, ends):
            low, high = ends
            cell = (high - low) / (ZOOM_POINTS - 1)
            places = np.arange(ZOOM_POINTS, dtype=np.int32)
            values = log_density(coefficients, low[:, None] + cell[:, None] * places)
            kept = values > jnp.max(values, axis=1, keepdims=True) - DEPTH
            first = jnp.min(jnp.where(kept, places, ZOOM_POINTS - 1), axis=1)
            last = jnp.max(jnp.where(kept, places, 0), axis=1)
            return low + cell * jnp.maximum(first - 1, 0), low + cell * jnp.minimum(last + 1, ZOOM_POINTS - 1)

        low, high = jax.lax.fori_loop(0, ZOOMS, zoom, (jnp.full(num, -REACH), jnp.full(num, REACH)))
        cell = (high - low) / (FINE_POINTS - 1)
        values = log_density(coefficients, low[:, None] + cell[:, None] * np.arange(FINE_POINTS, dtype=np.float32))
        return low + cell * inverted(jnp.exp(values - jnp.max(values, axis=1, keepdims=True)), uniform)

    def step(state: TaylorState, y) -> TaylorState:
        keys = jax.random.split(jax.random.fold_in(state.key, state.time), 3)
        weights = jnp.exp(state.log_weights - jnp.max(state.log_weights))
        ancestors = systematic(jax.random.uniform(keys[0], (1,)), weights[None])
        x, sums = state.x[ancestors], state.sums[ancestors]
        u = draw(sums, jax.random.uniform(keys[1], (num,)))
        new_x = jnp.sin(PRIOR_SD * u * x) + jax.random.normal(keys[2], (num,))
        log_weights = -0.5 * ((y - new_x) / OBSERVATION_SD) ** 2
        # -(x' - sum_k c_k (s x)^k u^k)^2 / 2
        residual = -jnp.asarray(_TAYLOR, x.dtype) * (PRIOR_SD * x[:, None]) ** np.arange(ORDER + 1)
        residual = residual.at[:, 0].set(new_x)
        products = [
            sum(residual[:, i] * residual[:, k - i] for i in range(max(0, k - ORDER), min(k, ORDER) + 1))
            for k in range(1, 2 * ORDER + 1)
        ]
        terms = jnp.stack([jnp.zeros(num), *(-0.5 * product for product in products), jnp.zeros(num)], axis=1)
        old, lost = sums[:, :16], sums[:, 16:]
        total = old + terms
        lost = lost + jnp.where(jnp.abs(old) >= jnp.abs(terms), (old - total) + terms, (terms - total) + old)
        return TaylorState(state.key, state.time + 1, new_x, jnp.concatenate([total, lost], axis=1), log_weights)

    def draws(state: TaylorState, key):
        return PRIOR_SD * draw(state.sums, jax.random.uniform(key, (num,))), state.log_weights

    return BareFilter(start, step, draws)


def inverted(density, uniform):
    """Return the quantiles of densities on rows of a uniform grid, in cells from its first point."""
    outer = jnp.pad(density, ((0, 0), (1, 1)), mode="edge")
    before, left, right, after = outer[:, :-3], outer[:, 1:-2], outer[:, 2:-1], outer[:, 3:]
    masses = (13.0 * (left + right) - before - after) / 24.0
    num_cells = masses.shape[1]
    is_end = np.isin(np.arange(num_cells), (0, num_cells - 1))
    masses = jnp.where(is_end | (masses <= 0), 0.5 * (left + right), masses)
    width = int(np.ceil(np.sqrt(num_cells)))
    blocks = jnp.pad(masses, ((0, 0), (0, -num_cells % width))).reshape(len(masses), -1, width)
    within = blocks @ jnp.asarray(np.tri(width).T, density.dtype)
    before = within[:, :, -1] @ jnp.asarray(np.tri(blocks.shape[1], k=-1).T, density.dtype)
    cumulative = jnp.pad((within + before[:, :, None]).reshape(len(masses), -1)[:, :num_cells], ((0, 0), (1, 0)))
    target = uniform * cumulative[:, -1]
    cell = jnp.clip(jnp.sum(cumulative <= target[:, None], axis=1) - 1, 0, num_cells - 1)
    at = lambda rows, place: jnp.take_along_axis(rows, place[:, None], axis=1)[:, 0]
    first, second, below, above = (
        at(density, cell),
        at(density, cell + 1),
        at(cumulative, cell),
        at(cumulative, cell + 1),
    )
    share = jnp.clip((target - below) / jnp.maximum(above - below, 1e-30), 0.0, 1.0) * (first + second)
    root = jnp.sqrt(jnp.maximum(first**2 + (second - first) * share, 0.0))
    return cell + share / jnp.maximum(first + root, 1e-30)


class ConjugateState(NamedTuple):
    """Each particle's belief about the coefficient is a Gaussian."""

    key: jax.Array
    time: jax.Array
    x: jax.Array
    mean: jax.Array
    precision: jax.Array
    theta: jax.Array


def conjugate(num: int, q: float = 1.0, r: float = 1.0) -> BareFilter:
    """Make the default filter on AR(1); the coefficient is integrated out of each move."""
    start = ConjugateState(
        jax.random.key(0), jnp.int32(0), jax.random.normal(jax.random.key(1), (num,)), jnp.zeros(num), jnp.ones(num),
        jnp.zeros(num),
    )  # fmt: skip

    def draw(state: ConjugateState, key):
        return state.mean + jax.lax.rsqrt(state.precision) * jax.random.normal(key, (num,))

    def step(state: ConjugateState, y) -> ConjugateState:
        keys = jax.random.split(jax.random.fold_in(state.key, state.time), 3)
        theta = draw(state, keys[0])
        forecast = state.mean * state.x
        spread = q + state.x**2 / state.precision
        promise = -0.5 * ((y - forecast) ** 2 / (spread + r) + jnp.log(spread + r))
        rows = promise.reshape(ISLANDS, -1)
        weights = jnp.exp(rows - jnp.max(rows, axis=1, keepdims=True))
        ancestors = systematic(jax.random.uniform(keys[1], (ISLANDS,)), weights)
        pick = lambda leaf: leaf[ancestors]
        x, mean, precision, forecast, spread, theta = map(
            pick, (state.x, state.mean, state.precision, forecast, spread, theta)
        )
        gain = spread / (spread + r)
        new_x = forecast + gain * (y - forecast) + jnp.sqrt(gain * r) * jax.random.normal(keys[2], (num,))
        new_precision = precision + x**2 / q
        new_mean = (precision * mean + x * new_x / q) / new_precision
        return ConjugateState(state.key, state.time + 1, new_x, new_mean, new_precision, theta)

    return BareFilter(start, step, lambda state, key: (draw(state, key), jnp.zeros(num)))


class GridState(NamedTuple):
    """Each particle's belief is a row of log values at the points of one grid."""

    key: jax.Array
    time: jax.Array
    x: jax.Array
    values: jax.Array
    center: jax.Array
    half_width: jax.Array


POINTS, LOOKS = 33, 12
KEPT_DEPTH, EDGE_DEPTH, SHRINK, WIDENING = 12.0, 6.0, 0.6, 0.5


def grid(num: int) -> BareFilter:
    """Make the extended parameter filter on SIN, without mixing."""
    units, places = np.linspace(-1.0, 1.0, POINTS, dtype=np.float32), np.arange(POINTS, dtype=np.int32)
    half_width = PRIOR_SD * np.sqrt(2 * KEPT_DEPTH)
    start = GridState(
        jax.random.key(0), jnp.int32(0), jax.random.normal(jax.random.key(1), (num,)),
        jnp.broadcast_to(-0.5 * (half_width / PRIOR_SD * units) ** 2, (num, POINTS)).astype(jnp.float32),
        jnp.float32(0), jnp.float32(half_width),
    )  # fmt: skip

    def draw(state: GridState, key):
        cells = inverted(jnp.exp(state.values), jax.random.uniform(key, (num,)))
        return state.center + state.half_width * (cells * (2 / (POINTS - 1)) - 1)

    def moved(values, center, half_width, new_center, new_half_width):
        """Re-express rows on another grid: one product with a matrix of local cubics, straight on beyond the ends."""
        cells = ((new_center + new_half_width * units - center) / half_width + 1) * ((POINTS - 1) / 2)
        inside = jnp.clip(cells, 0, POINTS - 1)
        first = jnp.clip(jnp.floor(cells).astype(jnp.int32) - 1, 0, POINTS - 4)
        q = inside - first
        cubics = (-(q - 1) * (q - 2) * (q - 3) / 6, q * (q - 2) * (q - 3) / 2, -q * (q - 1) * (q - 3) / 2,
                  q * (q - 1) * (q - 2) / 6)  # fmt: skip
        matrix = sum(part[:, None] * (places == (first + j)[:, None]) for j, part in enumerate(cubics))
        beyond = cells - inside
        matrix += jnp.minimum(beyond, 0)[:, None] * ((places == 1) * 1.0 - (places == 0))
        matrix += jnp.maximum(beyond, 0)[:, None] * ((places == POINTS - 1) * 1.0 - (places == POINTS - 2))
        prior = lambda c, h: -0.5 * ((c + h * units) / PRIOR_SD) ** 2
        return (values - prior(center, half_width)) @ matrix.T + prior(new_center, new_half_width)

    def wanted(values, center, half_width):
        densities = jnp.exp(values)
        profile = jnp.log(jnp.mean(densities / jnp.sum(densities, axis=1, keepdims=True), axis=0) + 1e-37)
        top = jnp.max(profile)
        is_kept = profile > top - KEPT_DEPTH
        low = jnp.maximum(jnp.min(jnp.where(is_kept, places, POINTS - 1)) - 1, 0) * (2 / (POINTS - 1)) - 1
        high = jnp.minimum(jnp.max(jnp.where(is_kept, places, 0)) + 1, POINTS - 1) * (2 / (POINTS - 1)) - 1
        low = jnp.where(profile[0] > top - EDGE_DEPTH, -1 - WIDENING, low)
        high = jnp.where(profile[-1] > top - EDGE_DEPTH, 1 + WIDENING, high)
        is_other = (high - low < 2 * SHRINK) | (low < -1) | (high > 1)
        return center + half_width * (low + high) / 2, half_width * (high - low) / 2, is_other

    def step(state: GridState, y) -> GridState:
        keys = jax.random.split(jax.random.fold_in(state.key, state.time), 3)
        theta = draw(state, keys[0])
        forecast = jnp.sin(theta * state.x)
        spread = 1 + OBSERVATION_SD**2
        rows = (-0.5 * (y - forecast) ** 2 / spread).reshape(ISLANDS, -1)
        weights = jnp.exp(rows - jnp.max(rows, axis=1, keepdims=True))
        ancestors = systematic(jax.random.uniform(keys[1], (ISLANDS,)), weights)
        x, forecast, values = state.x[ancestors], forecast[ancestors], state.values[ancestors]
        noise = OBSERVATION_SD / np.sqrt(spread) * jax.random.normal(keys[2], (num,))
        new_x = forecast + (y - forecast) / spread + noise

        def look(carry):
            values, _, center, half_width, looks, _ = carry
            points = center + half_width * units
            after = values - 0.5 * (new_x[:, None] - jnp.sin(points * x[:, None])) ** 2
            after -= jnp.max(after, axis=1, keepdims=True)
            new_center, new_half_width, is_other = wanted(after, center, half_width)
            is_other &= looks < LOOKS
            new_center = jnp.where(is_other, new_center, center)
            new_half_width = jnp.where(is_other, new_half_width, half_width)
            there = new_center, new_half_width
            values = jax.lax.cond(is_other, lambda v: moved(v, center, half_width, *there), lambda v: v, values)
            return values, after, *there, looks + 1, is_other

        first = (values, jnp.zeros_like(values), state.center, state.half_width, jnp.int32(0), jnp.bool_(True))
        _, after, center, half_width, _, _ = jax.lax.while_loop(lambda carry: carry[-1], look, first)
        return GridState(state.key, state.time + 1, new_x, after, center, half_width)

    return BareFilter(start, step, lambda state, key: (draw(state, key), jnp.zeros(num)))

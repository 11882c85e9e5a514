"""The arithmetic of three filters written bare: JAX alone, one model each, tuned by hand, no checks and no health.

They are the yardstick of `step`: what a step must cost at least, on the same engine. Each function returns a filter,
that is a first state, a step, and draws of theta with log weights to see that it computes what the library does, for

- `taylor`: SIN with the paper's polynomial of degree 14, moved by the transition;
- `chebyshev`: SIN with values at 17 points of moving windows, four islands, looking ahead (the default);
- `conjugate`: AR(1) with an unknown coefficient, exact beliefs, four islands, looking ahead (the default).

What is done by hand here: random numbers for all particles in one call; constants folded; ancestors by counting;
extremes by masked minima; sums of short rows as matrix products; only the windows that must move are moved.
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


class ChebyshevState(NamedTuple):
    """Each particle has a window (centre, half width, level of sharpness) and values at its points."""

    key: jax.Array
    time: jax.Array
    x: jax.Array
    center: jax.Array
    half: jax.Array
    level: jax.Array
    values: jax.Array


NODES, GRID, MOVES, MOVED_SHARE = 17, 65, 6, 64
CORE, CORE_DEPTH, EDGE_DEPTH, WIDENING, SHRINK, SHARPEN = 0.45, 1.0, 7.0, 0.5, 0.7, 1.5
_U, _G = -np.cos(np.pi * np.arange(NODES) / (NODES - 1)), np.linspace(-1, 1, GRID)
_SHARPNESS = np.concatenate([[0.01], np.geomspace(0.1, 12.0, 47)])
_K = _SHARPNESS[:, None]
_NODES_AT, _GRID_AT = (np.float32(np.sinh(_K * u) / np.sinh(_K)) for u in (_U, _G))
_SLOPES = np.float32(np.log(_K * np.cosh(_K * _G) / np.sinh(_K)))
_RATIOS = np.log(np.sinh(_SHARPNESS) / np.sinh(CORE * _SHARPNESS))
_CORES, _ENDS = np.float32(np.exp(-_RATIOS)), np.float32((_RATIOS[1:] + _RATIOS[:-1]) / 2)
_SIGNS = np.where(np.isin(np.arange(NODES), (0, NODES - 1)), 0.5, 1.0) * (-1.0) ** np.arange(NODES)
_LINES = np.float32(np.stack([np.interp(_G, _U, unit) for unit in np.eye(NODES)]))


def barycentric(u):
    """Return the weights of the nodes in the interpolant at u."""
    offsets = u[..., None] - np.float32(_U)
    is_hit = offsets == 0
    terms = np.float32(_SIGNS) / jnp.where(is_hit, 1.0, offsets)
    return jnp.where(jnp.any(is_hit, -1, keepdims=True), is_hit, terms / jnp.sum(terms, -1, keepdims=True))


def chebyshev(num: int) -> BareFilter:
    """Make the default filter on SIN, without checks of the approximation."""
    half = np.float32(5.3 * PRIOR_SD)  # a prior falls by 14 nats within 5.3 sds
    start = ChebyshevState(
        jax.random.key(0), jnp.int32(0), jax.random.normal(jax.random.key(1), (num,)), jnp.zeros(num),
        jnp.full(num, half), jnp.zeros(num, jnp.int32), jnp.zeros((num, NODES)),
    )  # fmt: skip
    to_grid = np.float32(np.asarray(barycentric(jnp.asarray(_G, jnp.float32)))).T
    batch = max(num // MOVED_SHARE, 1)
    predictive = 1.0 + OBSERVATION_SD**2
    gain = 1.0 / predictive
    places = np.arange(GRID, dtype=np.int32)

    def nodes_of(center, half, level):
        return center[:, None] + half[:, None] * jnp.asarray(_NODES_AT)[level]

    def log_prior(theta):
        return -0.5 * (theta / PRIOR_SD) ** 2

    def look(center, half, level, values, x, new_x):
        theta = nodes_of(center, half, level)
        terms = -0.5 * (new_x[:, None] - jnp.sin(theta * x[:, None])) ** 2
        profile = (values + terms + log_prior(theta)) @ _LINES
        top = jnp.max(profile, axis=1, keepdims=True)
        kept, is_below = profile > top - DEPTH, profile <= top - CORE_DEPTH
        peak = jnp.min(jnp.where(profile == top, places, GRID - 1), axis=1)[:, None]
        first, last = jnp.min(jnp.where(kept, places, GRID - 1), axis=1), jnp.max(jnp.where(kept, places, 0), axis=1)
        left = jnp.max(jnp.where(is_below & (places < peak), places, 0), axis=1)
        right = jnp.min(jnp.where(is_below & (places > peak), places, GRID - 1), axis=1)
        at = lambda place: center + half * jnp.asarray(_GRID_AT)[level, place]
        low, high = at(jnp.maximum(first - 1, 0)), at(jnp.minimum(last + 1, GRID - 1))
        low = jnp.where(profile[:, 0] > top[:, 0] - EDGE_DEPTH, low - WIDENING * half, low)
        high = jnp.where(profile[:, -1] > top[:, 0] - EDGE_DEPTH, high + WIDENING * half, high)
        core_low, core_high = at(left), at(right)
        middle = (core_low + core_high) / 2
        reach = jnp.maximum(high - middle, middle - low)
        ratio = jnp.log(2 * reach / (core_high - core_low))
        sharp = jnp.sum(ratio[:, None] > _ENDS, axis=1, dtype=jnp.int32)
        core = half * jnp.asarray(_CORES)[level]
        is_other = (
            (reach < SHRINK * half)
            | (reach > (1 + WIDENING / 4) * half)
            | (reach * jnp.asarray(_CORES)[sharp] * SHARPEN < core)
            | (jnp.abs(middle - center) > core)
        )
        return terms, middle, reach, sharp, is_other

    def moved(center, half, level, values, new_center, new_half, new_level):
        k = jnp.asarray(_SHARPNESS, jnp.float32)[level][:, None]
        theta = nodes_of(new_center, new_half, new_level)
        u = jnp.arcsinh((theta - center[:, None]) / half[:, None] * jnp.sinh(k)) / k
        end = jnp.sign(u)
        inside, before = barycentric(jnp.clip(u, -1.0, 1.0)), barycentric(0.9 * end)
        to_theta = lambda u: center[:, None] + half[:, None] * jnp.sinh(k * u) / jnp.sinh(k)
        beyond = (theta - to_theta(end)) / (to_theta(end) - to_theta(0.9 * end))
        rows = jnp.where((jnp.abs(u) > 1)[..., None], inside + beyond[..., None] * (inside - before), inside)
        return jnp.einsum("bij,bj->bi", rows, values)

    def absorb(state, x, new_x):
        def is_unsettled(sight, num_moves):
            return sight[4] & (num_moves < MOVES)

        def move_some(carry):
            belief, sight, num_moves = carry
            rows = jnp.flatnonzero(is_unsettled(sight, num_moves), size=batch, fill_value=num)
            get = lambda leaf: leaf.at[rows].get(mode="clip")
            put = lambda leaf, part: leaf.at[rows].set(part, mode="drop")
            window = tuple(map(get, sight[1:4]))
            values = moved(*map(get, belief), *window)
            new = look(*window, values, get(x), get(new_x))
            return (
                tuple(map(put, belief, (*window, values))),
                tuple(map(put, sight, new)),
                num_moves.at[rows].add(1, mode="drop"),
            )

        belief = (state.center, state.half, state.level, state.values)
        carry = (belief, look(*belief, x, new_x), jnp.zeros(num, jnp.int32))
        belief, sight, _ = jax.lax.while_loop(lambda c: jnp.any(is_unsettled(c[1], c[2])), move_some, carry)
        values = belief[3] + sight[0]
        return (*belief[:3], values - jnp.max(values, axis=1, keepdims=True))

    def draw(state: ChebyshevState, uniform):
        theta = nodes_of(state.center, state.half, state.level)
        table = (state.values + log_prior(theta)) @ to_grid
        table = (
            jnp.maximum(table, jnp.max(table, axis=1, keepdims=True) - 2 * DEPTH) + jnp.asarray(_SLOPES)[state.level]
        )
        density = jnp.exp(table - jnp.max(table, axis=1, keepdims=True))
        u = -1 + 2 / (GRID - 1) * inverted(density, uniform)
        k = jnp.asarray(_SHARPNESS, jnp.float32)[state.level]
        return state.center + state.half * jnp.sinh(k * u) / jnp.sinh(k)

    def step(state: ChebyshevState, y) -> ChebyshevState:
        keys = jax.random.split(jax.random.fold_in(state.key, state.time), 3)
        drawn = draw(state, jax.random.uniform(keys[0], (num,)))
        mean = jnp.sin(drawn * state.x)
        promise = (-0.5 / predictive * (y - mean) ** 2).reshape(ISLANDS, -1)
        weights = jnp.exp(promise - jnp.max(promise, axis=1, keepdims=True))
        ancestors = systematic(jax.random.uniform(keys[1], (ISLANDS,)), weights)
        old, mean = jax.tree.map(lambda leaf: leaf[ancestors], (state[2:], mean))
        old = ChebyshevState(state.key, state.time, *old)
        noise = np.float32(np.sqrt(1 - gain)) * jax.random.normal(keys[2], (num,))
        new_x = mean + gain * (y - mean) + noise
        return ChebyshevState(state.key, state.time + 1, new_x, *absorb(old, old.x, new_x))

    def draws(state: ChebyshevState, key):
        return draw(state, jax.random.uniform(key, (num,))), jnp.zeros(num)

    return BareFilter(start, step, draws)


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

"""A belief given the true states, held against the exact density of theta: what the belief alone is responsible for.

The exact (Gibbs) density is p(theta | x_0..x_T, y_1..y_T), known up to a constant at any theta. Points of theta are
drawn from a Student t fitted to it; with weights W and the difference d = log q - log p at the points,

    KL(p || q) = log sum W e^d - sum W d,

and the error of a mean is sum W (e^d / sum W e^d - 1) theta: differences of like numbers, so that a few thousand points
resolve errors far below a standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import paramfilter as pf
from paramfilter.inspect.dependence import ThetaFactors
from paramfilter.model import Transition
from paramfilter.particles import BoundBelief
from paramfilter.resampling import Systematic

NUM_DRAWS = 256
"""How many draws show a belief where it is: a filter has its particles for that."""

NUM_POINTS = 4000
DEGREES_OF_FREEDOM = 5.0
NUM_REFITS = 6


@dataclass(frozen=True)
class Path:
    """True states and observations; `x` starts at x_0 and is one longer than `y`."""

    x: np.ndarray
    y: np.ndarray

    def data(self) -> Transition:
        """Return all steps, with a leading axis of time."""
        return Transition(self.x[:-1], self.x[1:], self.y, None)


def simulate_path(model: pf.StateSpaceModel, theta: dict, seed: int, num_steps: int) -> Path:
    """Draw a path of `num_steps` transitions; its first state stands for x_0."""
    xs, ys = pf.simulate(jax.random.key(seed), model, theta, num_steps + 1)
    return Path(np.asarray(xs, np.float64), np.asarray(ys, np.float64)[1:])


def follow(belief: BoundBelief) -> Callable:
    """Return the compiled `(key, path) -> (shared, statistic, error)` that feeds a belief with a known path."""
    factors = ThetaFactors(belief.model)

    @jax.jit
    def run(key, x, y):
        key_start, key_steps = jax.random.split(key)
        z = jax.vmap(belief.model.parameters.sample)(jax.random.split(key_start, NUM_DRAWS))
        shared = belief.init_shared(z)
        first = jax.tree.map(lambda leaf: leaf[0], x)
        one = belief.update_initial(shared, belief.init(), first, None)
        statistics = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (NUM_DRAWS, *leaf.shape)), one)

        def step(carry, turn):
            shared, statistics, z = carry
            index, x_prev, x_now, y_now = turn
            shared, statistics = belief.adapt(shared, statistics, z, jnp.zeros(NUM_DRAWS, z.dtype))
            keys = jax.random.split(jax.random.fold_in(key_steps, index), NUM_DRAWS)
            z = jax.vmap(belief.sample, in_axes=(0, None, 0, 0))(keys, shared, statistics, z).z
            datum = Transition(x_prev, x_now, y_now, None)
            # As in a filter, draws that explain the datum are kept: weighted by it, and resampled.
            log_weights = jax.vmap(lambda point: factors.step(datum, point))(z)
            resampled = Systematic().resample(jax.random.fold_in(key_steps, len(y) + index), log_weights)
            z = z[resampled.ancestors]
            # All draws follow the same path, so one update serves them all.
            one = belief.update(shared, jax.tree.map(lambda leaf: leaf[0], statistics), datum)
            statistics = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (NUM_DRAWS, *leaf.shape)), one)
            return (shared, statistics, z), None

        turns = (jnp.arange(len(y)), x[:-1], x[1:], y)
        (shared, statistics, _), _ = jax.lax.scan(step, (shared, statistics, z), turns)
        statistic = jax.tree.map(lambda leaf: leaf[0], statistics)
        return shared, statistic, belief.error(shared, statistic)

    return lambda key, path: run(key, jnp.asarray(path.x, float), jnp.asarray(path.y, float))


@dataclass(frozen=True)
class Exact:
    """Weighted points of the exact density: coordinates, log density up to a constant, and normalised weights."""

    z: np.ndarray
    log_density: np.ndarray
    weights: np.ndarray

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation in z."""
        mean = self.weights @ self.z
        return mean, np.sqrt(self.weights @ (self.z - mean) ** 2)


def exact_log_density(model: pf.StateSpaceModel) -> Callable:
    """Return the compiled exact log density of many points, `(x, y, z[point, param]) -> [point]`, in float64."""
    factors = ThetaFactors(model)

    @partial(jax.jit)
    def evaluate(x, y, z):
        first = jax.tree.map(lambda leaf: leaf[0], x)

        def one(point):
            def add(total, turn):
                return total + factors.step(Transition(*turn, None), point), None

            start = model.parameters.log_prior(point)
            if factors.depends.initial:
                start += factors.initial(point, first, None)
            return jax.lax.scan(add, start, (x[:-1], x[1:], y))[0]

        return jax.lax.map(one, z, batch_size=500)

    def call(path, z):
        with jax.enable_x64(True):
            return np.asarray(evaluate(jnp.asarray(path.x), jnp.asarray(path.y), jnp.asarray(z, jnp.float64)))

    return call


def exact_points(log_density: Callable, path: Path, start: np.ndarray, scale: np.ndarray, key) -> Exact:
    """Find weighted points of the exact density, by refitting a Student t to it from a rough start."""
    mean, factor = np.asarray(start, np.float64), np.diag(np.asarray(scale, np.float64))
    for turn in range(NUM_REFITS):
        z, log_proposal = _student(jax.random.fold_in(key, turn), mean, factor, NUM_POINTS)
        values = log_density(path, z)
        log_weights = values - log_proposal
        log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
        # Tempered in the first turns, so that a poor start cannot leave a single point.
        power = _power(log_weights, NUM_POINTS / 20)
        weights = np.exp(power * (log_weights - log_weights.max()))
        weights /= weights.sum()
        if power == 1.0 and turn >= 2 and 1 / np.sum(weights**2) > NUM_POINTS / 4:
            break
        mean = weights @ z
        centered = z - mean
        factor = np.linalg.cholesky((weights[:, None] * centered).T @ centered + 1e-24 * np.eye(len(mean)))
    return Exact(z, values, weights)


def _power(log_weights: np.ndarray, wanted: float) -> float:
    """Return the largest power at most 1 of the weights that keeps the effective sample size at `wanted`."""

    def ess(power):
        w = np.exp(power * (log_weights - log_weights.max()))
        return w.sum() ** 2 / np.sum(w**2)

    if ess(1.0) >= wanted:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if ess(middle) > wanted else (low, middle)
    return low


def _student(key, mean: np.ndarray, factor: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw from a multivariate t, with log densities up to a constant."""
    with jax.enable_x64(True):
        key_normal, key_chi = jax.random.split(key)
        normal = np.asarray(jax.random.normal(key_normal, (size, len(mean)), jnp.float64))
        chi = np.asarray(jax.random.chisquare(key_chi, DEGREES_OF_FREEDOM, (size,), jnp.float64)) / DEGREES_OF_FREEDOM
    standard = normal / np.sqrt(chi)[:, None]
    log_density = -0.5 * (DEGREES_OF_FREEDOM + len(mean)) * np.log1p(np.sum(standard**2, axis=1) / DEGREES_OF_FREEDOM)
    return mean + standard @ factor.T, log_density


@dataclass(frozen=True)
class GibbsVerdict:
    """How far a belief is from the exact density.

    Attributes:
        divergence: KL(exact || belief).
        mean_error: Largest error of a mean over the coordinates of z, in sds.
        sd_ratio: Belief's sd / exact sd, the one farthest from 1.
        error: Standard deviation of log q - log p under the exact density, in nats.
        reported: What the belief itself reports as `error`.
    """

    divergence: float
    mean_error: float
    sd_ratio: float
    error: float
    reported: float


def judge(belief: BoundBelief, exact: Exact, shared, statistic, reported) -> GibbsVerdict:
    """Compare a belief with the exact density."""
    log_q = np.asarray(_log_probs(belief)(shared, statistic, jnp.asarray(exact.z, float)), np.float64)
    difference = log_q - exact.log_density
    kept = np.where(np.isfinite(difference), exact.weights, 0.0)
    lost = 1.0 - kept.sum()
    if lost > 0.5:  # no density worth the name
        return GibbsVerdict(np.inf, np.inf, 0.0, np.inf, float(reported))
    kept = kept / max(kept.sum(), 1e-300)
    difference = np.where(kept > 0, difference, 0.0)
    centered = difference - kept @ difference
    tilt = np.exp(np.clip(centered, -700, 700))
    total = kept @ tilt
    divergence = float(np.log(total) - np.log1p(-min(lost, 1 - 1e-12)))
    q = kept * tilt / total
    _, sd = exact.moments()
    mean_q = q @ exact.z
    sd_q = np.sqrt(q @ (exact.z - mean_q) ** 2)
    ratios = sd_q / sd
    return GibbsVerdict(
        divergence=max(divergence, 0.0),
        mean_error=float(np.max(np.abs((q - exact.weights) @ exact.z / sd))),
        sd_ratio=float(ratios[np.argmax(np.abs(np.log(ratios)))]),
        error=float(np.sqrt(kept @ centered**2)),
        reported=float(reported),
    )


_COMPILED: dict = {}


def _log_probs(belief: BoundBelief) -> Callable:
    if belief not in _COMPILED:
        _COMPILED[belief] = jax.jit(
            lambda shared, statistic, z: jax.lax.map(
                lambda one: belief.log_prob(shared, statistic, one), z, batch_size=500
            )
        )
    return _COMPILED[belief]

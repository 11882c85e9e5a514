"""Log likelihoods of many parameter values at once, in NumPy and float64.

Models that are linear and Gaussian given theta have an exact Kalman filter. Models with a nonlinear state have a
point-mass filter: the density of the state lives on a grid, and the trapezoidal rule replaces the integrals.

    p(x_t | y_1..y_{t-1})  =  integral of p(x_t | x_{t-1}) p(x_{t-1} | y_1..y_{t-1})
    p(y_t | y_1..y_{t-1})  =  integral of p(y_t | x_t) p(x_t | y_1..y_{t-1})

For smooth integrands the rule converges faster than any power: its relative error is 2 exp(-2 pi^2 (w/h)^2) for a
Gaussian integrand of width w and spacing h (L. N. Trefethen and J. A. C. Weideman, SIAM Review 56, 2014). The grids
below have h below 0.8 w, so their error comes from the ends of the grid and from shapes that are far from a Gaussian.
`fineness` multiplies the number of points; `python -m benchmarks.truth.checks` doubles it.

Each function takes arrays with one value for each theta, and returns one log likelihood for each theta.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

LOG_TWO_PI = np.log(2 * np.pi)
CACHE = 100_000
"""Numbers of a batch of transition matrices: they stay in a processor's second cache."""
SPACING = 0.77
"""Of a grid of the state, in widths of the narrowest integrand."""
MOST_POINTS = 600
"""Of a grid of the state, at fineness 1."""
WIDTH_OF_GRID = 6.5
"""Half the width of a grid, in sds of what it holds."""

SMALLEST_LOG = -150.0
"""Of a factor that multiplies a density: numbers below the smallest normal float64 would slow down each product."""

Observe = Callable[[float], np.ndarray]
"""From an observation to its log density at each point of the grid."""


def kalman_ar1(phi: np.ndarray, q: np.ndarray, r: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """Return log p(y) of x' = phi x + N(0, q^2), y = x + N(0, r^2), x_0 ~ N(0, 1); NaN is a missing observation."""
    mean, variance, total = np.zeros_like(phi), np.ones_like(phi), np.zeros_like(phi)
    phi_squared, process, noise = phi**2, q**2, r**2
    for y in ys:
        mean = phi * mean
        variance = phi_squared * variance + process
        if np.isnan(y):
            continue
        spread = variance + noise
        surprise = y - mean
        gain = variance / spread
        total -= 0.5 * (np.log(spread) + surprise * surprise / spread)
        mean = mean + gain * surprise
        variance = gain * noise
    return total - 0.5 * LOG_TWO_PI * np.sum(~np.isnan(ys))


def kalman(
    transition: np.ndarray,
    process_sds: np.ndarray,
    observed: np.ndarray,
    noise_sd: np.ndarray,
    initial_sds: np.ndarray,
    ys: np.ndarray,
) -> np.ndarray:
    """Return log p(y) of x' = F x + N(0, diag(q^2)), y = h x + N(0, r^2), x_0 ~ N(0, diag(initial_sds^2)).

    Args:
        transition: F, (state, state), the same for all thetas.
        process_sds: q, (state, theta).
        observed: h, (state,).
        noise_sd: r, (theta,).
        initial_sds: (state,).
        ys: (time,), without missing values.
    """
    size, num = process_sds.shape
    diagonal = np.arange(size)
    mean, covariance = np.zeros((size, num)), np.zeros((size, size, num))
    covariance[diagonal, diagonal] = (initial_sds**2)[:, None]
    total = np.zeros(num)
    for y in ys:
        mean = transition @ mean
        covariance = np.einsum("ij,jkn,lk->iln", transition, covariance, transition, optimize=True)
        covariance[diagonal, diagonal] += process_sds**2
        cross = np.einsum("ijn,j->in", covariance, observed)
        spread = observed @ cross + noise_sd**2
        surprise = y - observed @ mean
        total -= 0.5 * (LOG_TWO_PI + np.log(spread) + surprise**2 / spread)
        mean = mean + cross * (surprise / spread)
        covariance = covariance - cross[:, None] * (cross / spread)
    return total


def kalman_of_theta(
    transition: np.ndarray,
    drift: np.ndarray,
    process: np.ndarray,
    observed: np.ndarray,
    offset: np.ndarray,
    noise_sds: np.ndarray,
    initial_mean: np.ndarray,
    initial: np.ndarray,
    ys: np.ndarray,
) -> np.ndarray:
    """Return log p(y) of x' = F x + d + N(0, Q), y = H x + c + N(0, diag(r^2)), where theta may be in all of them.

    Args:
        transition: F, (state, state, theta).
        drift: d, (state, theta).
        process: Q, (state, state, theta).
        observed: H, (obs, state, theta).
        offset: c, (obs, theta).
        noise_sds: r, (obs, theta).
        initial_mean: Of x_0, (state, theta).
        initial: The covariance of x_0, (state, state, theta).
        ys: (time, obs), without missing values. The numbers of y_t are taken one after the other.
    """
    mean, covariance, total = initial_mean, initial, np.zeros(transition.shape[-1])
    for y in ys:
        mean = np.einsum("ijn,jn->in", transition, mean) + drift
        half = np.einsum("ijn,jkn->ikn", transition, covariance)
        covariance = np.einsum("ikn,lkn->iln", half, transition) + process
        for number, row, constant, noise_sd in zip(y, observed, offset, noise_sds, strict=True):
            cross = np.einsum("ijn,jn->in", covariance, row)
            spread = np.sum(row * cross, axis=0) + noise_sd**2
            surprise = number - constant - np.sum(row * mean, axis=0)
            total = total - 0.5 * (LOG_TWO_PI + np.log(spread) + surprise**2 / spread)
            mean = mean + cross * (surprise / spread)
            covariance = covariance - cross[:, None] * (cross / spread)
    return total


def independent(sds: np.ndarray) -> np.ndarray:
    """Return the covariance of independent numbers, (state, state, theta), from their sds, (state, theta)."""
    return np.eye(len(sds))[:, :, None] * sds**2


def grid_ar1(
    phi: np.ndarray,
    sigma: np.ndarray,
    initial_sd: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    integrand_width: np.ndarray,
    observation: Callable[[np.ndarray, np.ndarray], Observe],
    ys: np.ndarray,
    fineness: float = 1.0,
) -> np.ndarray:
    """Return log p(y) of u' = phi u + N(0, sigma^2), u_0 ~ N(0, initial_sd^2), and any law of y given u.

    Args:
        phi: (theta,), as all others up to `observation`.
        sigma: The sd of the process noise.
        initial_sd: The sd of u_0.
        low: The lower end of the grid of u.
        high: Its upper end.
        integrand_width: The sd of the narrowest integrand.
        observation: `(u (batch, grid), rows (batch,)) ->` a function from y to log p(y | u) for these thetas.
        ys: (time,), without missing values.
        fineness: Multiplies the number of points.
    """
    points = np.minimum((high - low) / (SPACING * integrand_width), MOST_POINTS)
    sizes = np.ceil(fineness * points).astype(int) + 1
    order = np.argsort(sizes)[::-1]
    found = np.zeros(len(phi))
    start = 0
    while start < len(order):
        size = sizes[order[start]]
        rows = order[start : start + max(1, CACHE // size**2)]
        start += len(rows)
        u = low[rows, None] + np.linspace(0.0, 1.0, size) * (high - low)[rows, None]
        step = (u[:, 1] - u[:, 0])[:, None]
        moved = (u[:, :, None] - phi[rows, None, None] * u[:, None, :]) / sigma[rows, None, None]
        kernel = np.exp(np.maximum(-0.5 * moved**2, SMALLEST_LOG))
        # columns sum to 1 but for the error of the rule; where the grid is too coarse, this keeps the chain a chain
        kernel /= np.sum(kernel, axis=1, keepdims=True)
        density = np.exp(-0.5 * (u / initial_sd[rows, None]) ** 2) / (np.sqrt(2 * np.pi) * initial_sd[rows, None])
        observe = observation(u, rows)
        for y in ys:
            log_factor = observe(y)
            top = np.max(log_factor, axis=1, keepdims=True)
            density = (kernel @ density[:, :, None])[:, :, 0] * np.exp(np.maximum(log_factor - top, SMALLEST_LOG))
            mass = np.maximum(np.sum(density, axis=1, keepdims=True) * step, np.finfo(float).tiny)
            density /= mass
            found[rows] += (np.log(mass) + top)[:, 0]
    return found


SIN_POINTS = 18
"""At fineness 1: a spacing of 0.78 observation sds."""


def grid_sin(theta: np.ndarray, noise_sd: float, ys: np.ndarray, fineness: float = 1.0) -> np.ndarray:
    """Return log p(y) of x' = sin(theta x) + N(0, 1), y = x + N(0, noise_sd^2), x_0 ~ N(0, 1).

    The observations are sharp, so the grid of x_t lies around y_t.
    """
    u = np.linspace(-7.0, 7.0, int(SIN_POINTS * fineness) + 1)
    step = u[1] - u[0]
    log_noise = -0.5 * u**2 - np.log(noise_sd) - 0.5 * LOG_TWO_PI
    first = np.linspace(-8.0, 8.0, int(64 * fineness) + 1)  # of x_0: a spacing of a quarter of its sd
    found = np.zeros(len(theta))
    for rows in np.array_split(np.arange(len(theta)), max(1, len(theta) * len(u) ** 2 // CACHE)):
        x_prev = first
        weights = np.tile(np.exp(-0.5 * first**2) / np.sqrt(2 * np.pi) * (first[1] - first[0]), (len(rows), 1))
        for y in ys:
            x = y + noise_sd * u
            moved = x[:, None] - np.sin(theta[rows, None] * x_prev)[:, None, :]
            density = (np.exp(-0.5 * moved**2) @ weights[:, :, None])[:, :, 0] / np.sqrt(2 * np.pi)
            weights = density * np.exp(log_noise) * (step * noise_sd)
            mass = np.maximum(np.sum(weights, axis=1, keepdims=True), np.finfo(float).tiny)
            weights /= mass
            found[rows] += np.log(mass[:, 0])
            x_prev = x
    return found


Drift = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From rows (batch,) and both numbers of the state, (batch, node), to their means at the next step."""
PLANE_POINTS = 28
"""On each axis at fineness 1: a spacing of 0.39 sds of the filtered state."""
LARGEST_EXPONENT = 40.0
"""Of a factor in single precision: two of them and a weight stay above the smallest normal number."""
SMALLEST_WEIGHT = 1e-30
PLANE_REACH = 5.5
"""Half the width of each axis, in sds of the filtered state."""


def grid_plane(
    drift: Drift,
    sigma: np.ndarray,
    noise_sd: float,
    initial_mean: float,
    initial_sd: float,
    ys: np.ndarray,
    fineness: float = 1.0,
) -> np.ndarray:
    """Return log p(y) of x' = f(x) + N(0, sigma^2 I), y = x + N(0, noise_sd^2 I) with a state of two numbers.

    The axes of the grid of x_t follow the filtered state: their middle and length come from its mean and sds under a
    Gaussian approximation. The noises of the two numbers are independent, so two small matrices make the transition.

    Args:
        drift: f.
        sigma: The sd of the process noise, (theta,).
        noise_sd: The sd of the observation noise.
        initial_mean: The mean of both numbers of x_0.
        initial_sd: The sd of both numbers of x_0.
        ys: (time, 2), without missing values.
        fineness: Multiplies the number of points on each axis.
    """
    size = int(PLANE_POINTS * fineness) + 1
    unit = np.linspace(-PLANE_REACH, PLANE_REACH, size)
    found = np.zeros(len(sigma))
    for rows in np.array_split(np.arange(len(sigma)), max(1, min(len(sigma) // 2, len(sigma) * size**3 // CACHE))):
        num, scale = len(rows), sigma[rows]
        axes = np.broadcast_to(initial_mean + initial_sd * unit, (2, num, size))
        first = np.exp(-0.5 * unit**2)
        weights = np.broadcast_to(np.outer(first, first), (num, size, size))
        weights = weights / np.sum(weights, axis=(1, 2), keepdims=True)
        for y in ys:
            a = np.repeat(axes[0], size, axis=1)
            b = np.tile(axes[1], (1, size))
            flat = weights.reshape(num, size * size)
            moved = np.stack(drift(rows, a, b))
            axes = _axes_around(moved, flat, scale, y, noise_sd, unit)
            step = axes[:, :, 1] - axes[:, :, 0]
            kernel = _unit_gaussian(axes, moved, scale[:, None])
            density = (kernel[0] * flat[:, None, :].astype(np.float32)) @ np.swapaxes(kernel[1], 1, 2)
            density = density / (2 * np.pi * scale**2)[:, None, None]
            log_factor = np.maximum(-0.5 * ((y[:, None, None] - axes) / noise_sd) ** 2, SMALLEST_LOG)
            factor = np.exp(log_factor) / (np.sqrt(2 * np.pi) * noise_sd)
            weights = density * factor[0][:, :, None] * factor[1][:, None, :] * (step[0] * step[1])[:, None, None]
            mass = np.maximum(np.sum(weights, axis=(1, 2)), np.finfo(float).tiny)
            weights = np.maximum(weights / mass[:, None, None], SMALLEST_WEIGHT)
            found[rows] += np.log(mass)
    return found


def gaussian_plane(
    drift: Drift, sigma: np.ndarray, noise_sd: float, initial_mean: float, initial_sd: float, ys: np.ndarray
) -> np.ndarray:
    """Approximate `grid_plane` by Gaussian moments at 3 x 3 Gauss-Hermite points, at a thousandth of the cost.

    It serves to find a proposal, never as the answer.
    """
    num, rows = len(sigma), np.arange(len(sigma))
    nodes, shares = np.polynomial.hermite_e.hermegauss(3)
    points = np.stack([np.repeat(nodes, 3), np.tile(nodes, 3)])
    weights = np.tile(np.outer(shares, shares).ravel() / (2 * np.pi), (num, 1))
    mean, covariance = np.full((2, num), initial_mean), np.tile(np.eye(2) * initial_sd**2, (num, 1, 1))
    found = np.zeros(num)
    for y in ys:
        places = mean.T[:, :, None] + np.linalg.cholesky(covariance) @ points
        moved = np.stack(drift(rows, places[:, 0], places[:, 1]))
        mean, covariance = _moments(moved, weights, sigma)
        spread = covariance + np.eye(2) * noise_sd**2
        surprise = y[:, None] - mean
        scaled = np.linalg.solve(spread, surprise.T[:, :, None])[:, :, 0].T
        found -= 0.5 * (2 * LOG_TWO_PI + np.log(np.linalg.det(spread)) + np.sum(surprise * scaled, axis=0))
        gain = covariance @ np.linalg.inv(spread)
        mean, covariance = mean + np.einsum("kij,jk->ik", gain, surprise), gain * noise_sd**2
        covariance = (covariance + np.swapaxes(covariance, 1, 2)) / 2
    return found


def _unit_gaussian(axes: np.ndarray, moved: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Return exp(-d^2 / 2) for the distances d in sds between axes and moved nodes, (2, batch, size, node).

    Single precision is enough for a factor of a sum of positive terms, and three times as fast.
    """
    scale = 1 / (np.sqrt(2) * sigma)
    middle = np.mean(axes, axis=2, keepdims=True)  # keeps the numbers small before they are rounded
    near, far = ((part - middle) * scale for part in (axes, moved))
    distance = near.astype(np.float32)[:, :, :, None] - far.astype(np.float32)[:, :, None, :]
    np.multiply(distance, distance, out=distance)
    np.minimum(distance, np.float32(LARGEST_EXPONENT), out=distance)
    np.negative(distance, out=distance)
    return np.exp(distance, out=distance)


def _axes_around(
    moved: np.ndarray, weights: np.ndarray, sigma: np.ndarray, y: np.ndarray, noise_sd: float, unit: np.ndarray
) -> np.ndarray:
    """Return both axes, (2, batch, size), around the filtered state that Gaussian moments predict."""
    mean, covariance = _moments(moved, weights, sigma)
    gain = covariance @ np.linalg.inv(covariance + np.eye(2) * noise_sd**2)
    middle = mean + np.einsum("kij,jk->ik", gain, y[:, None] - mean)
    sds = noise_sd * np.sqrt(np.diagonal(gain, axis1=1, axis2=2)).T  # the filtered covariance is gain noise_sd^2
    return middle[:, :, None] + sds[:, :, None] * unit


def _moments(moved: np.ndarray, weights: np.ndarray, sigma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (2, batch) and covariance (batch, 2, 2) of the next state."""
    mean = np.sum(moved * weights, axis=2)
    apart = moved - mean[:, :, None]
    covariance = np.einsum("ikn,jkn->kij", apart * weights, apart)
    return mean, covariance + np.eye(2) * sigma[:, None, None] ** 2

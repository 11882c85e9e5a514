"""Theorems 2 and 3 of the paper, by numbers: `python -m experiments.theorems`.

Theorem 2: the Kullback-Leibler divergence between exp(S) and exp of its Taylor polynomial, for S(x) = -x^2 + 5 sin^2
x on [-4, 4]. Theorem 3: the divergence between the Gibbs density p(theta | x_0..x_T) of SIN at T = 1024 and its
`TaylorOfMean` of order M. Both are taken by quadrature in float64; the belief is the library's own, fed with the true
states.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

import paramfilter as pf
from experiments.judging import write_results
from paramfilter.beliefs import BoundBelief
from paramfilter.model import Datum
from paramfilter.polynomials import MonomialBasis, taylor_coefficients

DENSITY_LIMITS = {4: 1.0, 8: 1e-2, 12: 5e-5, 16: 5e-7}
MEAN_LIMITS = {5: 5e-2, 7: 5e-3, 9: 5e-5, 11: 5e-7}
THETA_GRID = np.linspace(-1.5, 1.5, 12_001)


def kl_divergence(log_p: np.ndarray, log_q: np.ndarray) -> float:
    """Return KL(p || q) of two unnormalised log densities on one uniform grid."""
    log_p, log_q = log_p - logsumexp(log_p), log_q - logsumexp(log_q)
    return float(np.sum(np.exp(log_p) * (log_p - log_q)))


def density_divergence(order: int) -> float:
    """Return the divergence of Theorem 2's example at one order."""
    grid = np.linspace(-4.0, 4.0, 20_001)
    with jax.enable_x64(True):
        basis = MonomialBasis(1, order)
        coefficients = taylor_coefficients(lambda x: -(x[0] ** 2) + 5 * jnp.sin(x[0]) ** 2, jnp.zeros(1), basis)
    exact = -(grid**2) + 5 * np.sin(grid) ** 2
    return kl_divergence(exact, np.polynomial.polynomial.polyval(grid, np.asarray(coefficients)))


def gibbs_divergences(orders: list[int], num_data_sets: int, num_steps: int = 1024) -> dict[int, list[float]]:
    """Return, for each order, the divergence on each data set."""
    model = pf.models.sin()
    found: dict[int, list[float]] = {order: [] for order in orders}
    with jax.enable_x64(True):
        paths = [
            pf.simulate(jax.random.key(seed), model, {"theta": 0.7}, num_steps + 1)[0] for seed in range(num_data_sets)
        ]
        for order in orders:
            log_density = belief_log_density(pf.beliefs.TaylorOfMean(order).bind(model))
            for xs in paths:
                found[order].append(kl_divergence(_gibbs_log_density(np.asarray(xs)), np.asarray(log_density(xs))))
    return found


def belief_log_density(belief: BoundBelief) -> Callable[[jax.Array], jax.Array]:
    """Return the function that absorbs a known path and evaluates the belief on THETA_GRID."""

    @jax.jit
    def evaluate(path):
        def absorb(statistic, pair):
            datum = Datum(pair[0], pair[1], jnp.nan, None)
            return belief.absorb(shared, statistic, datum), None

        shared = belief.start_shared(jnp.zeros((2, 1)))
        statistic, _ = jax.lax.scan(absorb, belief.start(), (path[:-1], path[1:]))
        return jax.vmap(lambda z: belief.log_prob(shared, statistic, z[None]))(jnp.asarray(THETA_GRID))

    return evaluate


def _gibbs_log_density(xs: np.ndarray) -> np.ndarray:
    residuals = xs[1:, None] - np.sin(xs[:-1, None] * THETA_GRID)
    return -0.5 * (THETA_GRID / 0.2) ** 2 - 0.5 * np.sum(residuals**2, axis=0)


def main() -> None:
    density = {order: density_divergence(order) for order in DENSITY_LIMITS}
    gibbs = gibbs_divergences(list(MEAN_LIMITS), num_data_sets=20)
    results = {
        "theorem 2": {str(order): {"kl": kl, "limit": DENSITY_LIMITS[order]} for order, kl in density.items()},
        "theorem 3": {
            str(order): {"median kl": float(np.median(kls)), "max kl": max(kls), "limit": MEAN_LIMITS[order]}
            for order, kls in gibbs.items()
        },
    }
    for theorem, table in results.items():
        for order, row in table.items():
            print(theorem, "order", order, row)
    write_results("theorems", results)


if __name__ == "__main__":
    main()

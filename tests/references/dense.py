"""A second, independent way to the same numbers: the whole series as one dense Gaussian vector, in NumPy and SciPy.

No recursion: with e the stacked noises, x = M e + m and y = G x + g, so y is N(., .) of dimension T times obs. Missing
components are rows that are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal


@dataclass(frozen=True)
class LinearSystem:
    """x_t = A x_{t-1} + b_t + N(0, Q), y_t = H_t x_t + N(0, R), x_0 ~ N(m0, P0)."""

    A: np.ndarray
    b: np.ndarray
    Q: np.ndarray
    H: np.ndarray
    R: np.ndarray
    m0: np.ndarray
    P0: np.ndarray

    def joint(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return means of x and y, their covariances, and the covariance of x with y, all times stacked."""
        num_steps, size = self.b.shape
        # column block s of row block t carries noise s (0: the initial one) to time t
        zero = np.zeros((size, size))
        powers = [np.linalg.matrix_power(self.A, lag) for lag in range(num_steps + 1)]
        paths = [[powers[t - s] if s <= t else zero for s in range(num_steps + 1)] for t in range(1, num_steps + 1)]
        spread = np.block(paths)
        mean_x = spread @ np.concatenate([self.m0, self.b.ravel()])
        cov_x = spread @ block_diag(self.P0, *[self.Q] * num_steps) @ spread.T
        look = block_diag(*self.H)
        return mean_x, look @ mean_x, cov_x, look @ cov_x @ look.T + np.kron(np.eye(num_steps), self.R), cov_x @ look.T

    def log_likelihood(self, ys: np.ndarray) -> float:
        """Return the log density of the observed components."""
        _, mean, _, covariance, _ = self.joint()
        seen = ~np.isnan(ys.ravel())
        return float(multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(ys.ravel()[seen]))

    def last_state(self, ys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance of x_T given the observed components."""
        mean_x, mean_y, cov_x, cov_y, cross = self.joint()
        seen, last = ~np.isnan(ys.ravel()), slice(-self.A.shape[0], None)
        gain = np.linalg.solve(cov_y[np.ix_(seen, seen)], cross[last][:, seen].T).T
        mean = mean_x[last] + gain @ (ys.ravel() - mean_y)[seen]
        return mean, cov_x[last, last] - gain @ cross[last][:, seen].T


def scalar_system(coefficient: float, q: float, r: float, num_steps: int, p0: float = 1.0) -> LinearSystem:
    """Return an AR(1) with state variance q, observation variance r and x_0 ~ N(0, p0)."""
    one = np.ones((1, 1))
    return LinearSystem(
        coefficient * one, np.zeros((num_steps, 1)), q * one, np.ones((num_steps, 1, 1)), r * one, np.zeros(1), p0 * one
    )

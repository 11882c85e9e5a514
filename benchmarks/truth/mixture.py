"""A mixture of multivariate t distributions: draw from it, evaluate it, fit it to weighted points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special, stats
from scipy.stats import qmc

FREEDOM = 6.0
NUM_COMPONENTS = 6
NUM_ROUNDS = 40
"""Of expectation and maximization."""
WIDER = 1.15
"""Components are wider than fitted, by this factor of the variance: a proposal must not be narrower than its target."""
SHARE_OF_GUARD, WIDTH_OF_GUARD = 0.1, 2.0
"""A component as wide as this many sds of all points guards the tails."""
FLOOR = 0.02
"""A component has at least this share of the covariance of all points."""


@dataclass(frozen=True)
class StudentMixture:
    """Shares, centers (component, param) and Cholesky factors (component, param, param) of t distributions."""

    shares: np.ndarray
    centers: np.ndarray
    factors: np.ndarray

    def sample(self, num: int, seed: int) -> np.ndarray:
        """Return points of a scrambled Sobol sequence, moved to the mixture."""
        size = self.centers.shape[1]
        cube = np.clip(qmc.Sobol(size + 2, rng=seed).random(num), 1e-12, 1 - 1e-12)
        component = np.minimum(np.searchsorted(np.cumsum(self.shares), cube[:, 0]), len(self.shares) - 1)
        tails = np.sqrt(FREEDOM / stats.chi2(FREEDOM).ppf(cube[:, 1]))
        steps = special.ndtri(cube[:, 2:]) * tails[:, None]
        return self.centers[component] + np.einsum("nij,nj->ni", self.factors[component], steps)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log density of each row."""
        size = z.shape[1]
        constant = (
            special.gammaln((FREEDOM + size) / 2) - special.gammaln(FREEDOM / 2) - size / 2 * np.log(FREEDOM * np.pi)
        )
        parts = [
            np.log(share)
            + constant
            - _log_determinant(factor)
            - (FREEDOM + size) / 2 * np.log1p(_distances(z, center, factor) / FREEDOM)
            for share, center, factor in zip(self.shares, self.centers, self.factors, strict=True)
        ]
        return np.logaddexp.reduce(parts, axis=0)


def fit(z: np.ndarray, weights: np.ndarray, seed: int) -> StudentMixture:
    """Fit Gaussian components to weighted points by EM, and return t distributions of about the same width."""
    mean = weights @ z
    covariance = (z - mean).T @ ((z - mean) * weights[:, None]) + 1e-12 * np.eye(z.shape[1])
    # centers at evenly spaced ranks of the weights: a lobe gets as many as its mass says
    levels = (np.arange(NUM_COMPONENTS) + qmc.Halton(1, rng=seed).random(1)[0, 0]) / NUM_COMPONENTS
    order = np.argsort(z @ linalg.eigh(covariance)[1][:, -1])
    picked = order[np.minimum(np.searchsorted(np.cumsum(weights[order]), levels), len(z) - 1)]
    shares, centers = np.full(NUM_COMPONENTS, 1 / NUM_COMPONENTS), z[picked]
    covariances = np.tile(covariance / 2, (NUM_COMPONENTS, 1, 1))
    for _ in range(NUM_ROUNDS):
        logs = [
            np.log(share) - _log_determinant(factor) - 0.5 * _distances(z, center, factor)
            for share, center, factor in zip(shares, centers, np.linalg.cholesky(covariances), strict=True)
        ]
        belongs = special.softmax(np.array(logs), axis=0) * weights
        shares = np.maximum(np.sum(belongs, axis=1), 1e-6)
        centers = belongs @ z / shares[:, None]
        apart = z - centers[:, None, :]
        covariances = np.einsum("kn,kni,knj->kij", belongs, apart, apart, optimize=True) / shares[:, None, None]
        covariances += FLOOR * covariance
        shares = shares / np.sum(shares)
    # the covariance of a t distribution is FREEDOM / (FREEDOM - 2) times its scale
    factors = np.linalg.cholesky(covariances * WIDER * (FREEDOM - 2) / FREEDOM)
    guard = np.linalg.cholesky(covariance) * WIDTH_OF_GUARD
    return StudentMixture(
        np.append(shares * (1 - SHARE_OF_GUARD), SHARE_OF_GUARD),
        np.concatenate([centers, mean[None]]),
        np.concatenate([factors, guard[None]]),
    )


def _log_determinant(factor: np.ndarray) -> float:
    return float(np.sum(np.log(np.diag(factor))))


def _distances(z: np.ndarray, center: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return squared Mahalanobis distances from a center."""
    return np.sum(((z - center) @ np.linalg.inv(factor).T) ** 2, axis=1)

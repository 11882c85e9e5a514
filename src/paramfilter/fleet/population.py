"""How parameters differ from series to series: the prior of a new one, learned from those that are there.

    z_i ~ N(mu, S)          the parameters of series i, in unconstrained coordinates
    y_i ~ p(y_i | z_i)      its data

mu and S are found by the EM algorithm. Given mu and S, the nodes of a series with weights N(z; mu, S) L_i(z) / q_i(z)
are its posterior, L_i being the likelihood and q_i the distribution that the nodes were drawn from. Its mean m_i and
covariance V_i give the next mu, the mean of m_i, and the next S, the mean of V_i + (m_i - mu)(m_i - mu)'. Nodes know
the likelihood, so no posterior is taken to be Gaussian, and it does not matter under which prior a series began.

A. Dempster, N. Laird and D. Rubin, Maximum likelihood from incomplete data via the EM algorithm, 1977; B. Efron and
C. Morris, Stein's estimation rule and its competitors: an empirical Bayes approach, 1973.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from paramfilter.errors import DataError
from paramfilter.gaussian import Gaussian
from paramfilter.model import StateSpaceModel
from paramfilter.nodes import NodeState
from paramfilter.types import KeyArray

MOST_SERIES = 4096
"""Series that a population is learned from, at even distances: more change little."""
NUM_TURNS = 60
CLOSE = 1e-3
"""Change of mu and of the sds, in sds of the population, at which EM ends."""
PRIOR_SERIES = 0.1
"""Number of series for which the model's prior counts in S: it matters with few series, from which S is not learned."""
FEWEST_SERIES = 2


@dataclass(frozen=True, eq=False)
class Population:
    """The distribution of the parameters over a fleet, a Gaussian in unconstrained coordinates.

    Attributes:
        model: The model of the fleet.
        normal: The Gaussian.
        num_series: Number of series that it was learned from.
    """

    model: StateSpaceModel
    normal: Gaussian
    num_series: int

    def __repr__(self) -> str:
        center = {name: np.round(np.asarray(value), 3).tolist() for name, value in self.median().items()}
        return f"Population(median {center}; learned from {self.num_series} series)"

    def median(self) -> dict[str, np.ndarray]:
        """Return the parameters at the center of the Gaussian: for a scalar, its median over the fleet."""
        z = jnp.asarray(self.normal.mean, float)
        return {name: np.asarray(value) for name, value in self.model.parameters.constrain(z).items()}

    def sample(self, key: KeyArray, num_draws: int) -> dict[str, np.ndarray]:
        """Draw parameters of new series."""
        e = jax.random.normal(key, (num_draws, len(self.normal.mean)))
        z = jnp.asarray(self.normal.at(np.asarray(e)), float)
        return {name: np.asarray(value) for name, value in self.model.parameters.constrain_all(z).items()}


def learn_population(model: StateSpaceModel, series: NodeState, num_series: int) -> Population:
    """Learn a population from the nodes of those of the first rows that have observations."""
    rows = np.flatnonzero(np.asarray(series.time)[:num_series] > 0)
    rows = rows[:: max(1, len(rows) // MOST_SERIES)]
    num_series = len(rows)
    if num_series < FEWEST_SERIES:
        raise DataError(
            f"a population is learned from {FEWEST_SERIES} or more series with observations; the fleet has "
            f"{num_series}. Use fleet.add without prior= until it has more."
        )
    nodes = series.nodes
    each = (np.asarray(leaf, np.float64)[rows] for leaf in (nodes.z, nodes.log_likelihood, nodes.log_proposal))
    z, log_likelihood, log_proposal = each
    log_ratio = log_likelihood - log_proposal
    draws = model.parameters.prior_draws
    mean, own = np.mean(draws, axis=0), np.atleast_2d(np.cov(draws.T))
    covariance = own
    for _ in range(NUM_TURNS):
        before = mean, np.sqrt(np.diag(covariance))
        means, inner = _moments(z, log_ratio, mean, covariance)
        mean = np.mean(means, axis=0)
        apart = means - mean
        total = np.sum(inner, axis=0) + apart.T @ apart + PRIOR_SERIES * own
        covariance = total / (num_series + PRIOR_SERIES)
        sd = np.sqrt(np.diag(covariance))
        if max(np.max(np.abs(mean - before[0]) / sd), np.max(np.abs(sd / before[1] - 1))) < CLOSE:
            break
    precision = jnp.result_type(float)
    normal = Gaussian(mean.astype(precision), np.linalg.cholesky(covariance).astype(precision))
    return Population(model, normal, num_series)


def _moments(
    z: Float[np.ndarray, "series node param"],
    log_ratio: Float[np.ndarray, "series node"],
    mean: Float[np.ndarray, " param"],
    covariance: Float[np.ndarray, "param param"],
) -> tuple[Float[np.ndarray, "series param"], Float[np.ndarray, "series param param"]]:
    """Return mean and covariance of each series' posterior under a Gaussian prior."""
    apart = (z - mean) @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    log_weights = log_ratio - 0.5 * np.sum(apart**2, axis=-1)
    weights = np.exp(log_weights - np.max(log_weights, axis=1, keepdims=True))
    weights /= np.sum(weights, axis=1, keepdims=True)
    means = np.einsum("sn,snp->sp", weights, z)
    around = z - means[:, None]
    return means, np.einsum("sn,snp,snq->spq", weights, around, around)

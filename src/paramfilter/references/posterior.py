"""The posterior of theta on a grid: the same questions as a filter's posterior, answered by quadrature.

Means and sds are sums over the nodes (the trapezoid rule). Quantiles and draws read between the nodes; see `surface`.
All numbers are NumPy float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from paramfilter.errors import ModelError
from paramfilter.filters.quantiles import is_of_single_numbers
from paramfilter.labels import prior_in_brief
from paramfilter.parameters import Parameters
from paramfilter.references.problem import Answer, Problem
from paramfilter.references.surface import Surface
from paramfilter.references.theta_grid import Coordinates, Frame, log_prior_of, prior_coordinates, zoom
from paramfilter.types import KeyArray, State


@dataclass(frozen=True)
class Accuracy:
    """A change or an error of a posterior, the worst over its parameters.

    Args:
        mean: Of a posterior mean, in posterior sds.
        log_sd: Of the logarithm of a posterior sd.
        log_evidence: Of log p(y_{1:T}), in nats.
    """

    mean: float
    log_sd: float
    log_evidence: float


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """p(theta, x_T | y_{1:T}) with theta on a grid.

    Args:
        parameters: Names and supports of theta.
        z: The nodes, in unconstrained coordinates.
        log_weights: Normalised log weights of the nodes.
        theta: The nodes on the natural scale, by name.
        log_evidence: log p(y_{1:T}).
        state_mean: E[x_T | y_{1:T}], shaped like a state.
        state_sd: The sd of each component of x_T.
        accuracy: What changes when the spacing of every grid is halved; None unless it was asked for (`check=True`).
    """

    parameters: Parameters
    z: Float[np.ndarray, "node param"]
    log_weights: Float[np.ndarray, " node"]
    theta: dict[str, np.ndarray]
    log_evidence: float
    state_mean: State
    state_sd: State
    accuracy: Accuracy | None = None
    _coordinates: Coordinates = field(kw_only=True, repr=False)
    _surface: Surface = field(kw_only=True, repr=False)

    def __repr__(self) -> str:
        return f"GridPosterior({prior_in_brief(self.parameters.prior)}; {len(self.log_weights)} grid points)"

    def mean(self) -> dict[str, np.ndarray]:
        """Return the posterior mean of each parameter, on its natural scale."""
        return {name: self._expect(values) for name, values in self.theta.items()}

    def sd(self) -> dict[str, np.ndarray]:
        """Return the posterior standard deviation of each parameter."""
        center = self.mean()
        variances = {name: self._expect((values - center[name]) ** 2) for name, values in self.theta.items()}
        return {name: np.asarray(np.sqrt(variance)) for name, variance in variances.items()}

    def _expect(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(_weighted_sum(np.exp(self.log_weights), values))

    def quantile(self, q: float | Float[np.ndarray, " q"]) -> dict[str, np.ndarray]:
        """Return quantiles of each parameter; an array of shares gives a leading axis.

        They are exact to the spline for parameters each of whose components rises or falls with a coordinate of its
        own; other parameters, such as a simplex, are refused.
        """
        for name in self.parameters.names:
            if not is_of_single_numbers(self.parameters, name):
                raise ModelError(f'"{name}" has no quantiles, since its components depend on each other; use sample.')
        shares = np.asarray(q, np.float64)
        with jax.enable_x64(True):
            rows = [self._quantiles(float(share)) for share in shares.flat]
        shape_of = lambda name: (*shares.shape, *self.parameters.prior[name].shape())
        return {name: np.reshape([row[name] for row in rows], shape_of(name)) for name in self.parameters.names}

    def sample(self, key: KeyArray, n: int) -> dict[str, np.ndarray]:
        """Draw `n` values of theta, each parameter with a leading axis of length n."""
        with jax.enable_x64(True):
            v = self._surface.sample(key, n)
            return natural(self.parameters, self._coordinates.to_z(v))

    def _quantiles(self, share: float) -> dict[str, np.ndarray]:
        places = range(self.parameters.dimension)
        v = np.array([[self._surface.quantile(place, one) for place in places] for one in (share, 1.0 - share)])
        # A component may fall with its coordinate: then the upper end of one is the lower end of the other.
        pick = np.minimum if share < 0.5 else np.maximum
        return {
            name: np.asarray(pick(*ends)) for name, ends in natural(self.parameters, self._coordinates.to_z(v)).items()
        }


def _weighted_sum(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sum over nodes; a node of weight zero may hold anything (a variance that overflowed, say)."""
    alive = weights > 0
    return np.tensordot(weights[alive], values[alive], axes=1)


@dataclass(frozen=True, eq=False)
class ThetaProblem:
    """A problem together with the grid coordinates of its theta."""

    problem: Problem
    coordinates: Coordinates
    log_prior: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def of(cls, problem: Problem) -> ThetaProblem:
        """Choose the coordinates by the prior."""
        coordinates = prior_coordinates(problem.model.parameters)
        return cls(problem, coordinates, log_prior_of(problem.model.parameters, coordinates))

    def zoom(self, answer: Callable[[np.ndarray], Answer], frame: Frame, free_nodes: bool) -> tuple[Frame, Answer]:
        """Find the window in which the posterior lives, and the answer at its nodes."""
        last: list[Answer] = []

        def log_density(v):
            last[:] = [answer(self.coordinates.to_z(v))]
            return self.log_prior(v) + last[0].log_likelihood

        return zoom(log_density, frame, free_nodes=free_nodes), last[0]

    def posterior(self, frame: Frame, answer: Answer) -> GridPosterior:
        """Put the answer at all nodes together: Bayes' rule and a mixture over nodes."""
        scores = self.log_prior(frame.nodes) + answer.log_likelihood
        if np.any(np.isnan(scores)):
            warnings.warn(
                f"the model's likelihood is NaN at {np.mean(np.isnan(scores)):.0%} of the nodes of theta, which count "
                "as impossible. Bound the prior, so that it gives no weight to such values.",
                stacklevel=4,
            )
            scores = np.where(np.isnan(scores), -np.inf, scores)
        total = np.asarray(logsumexp(scores))
        weights = np.exp(scores - total)
        center = _weighted_sum(weights, answer.state_mean)
        variance = _weighted_sum(weights, answer.state_variance + (answer.state_mean - center) ** 2)
        z, parameters = self.coordinates.to_z(frame.nodes), self.problem.model.parameters
        as_state = lambda vector: jax.tree.map(np.asarray, self.problem.to_state(jnp.asarray(vector)))
        return GridPosterior(
            parameters=parameters,
            z=z,
            log_weights=scores - total,
            theta=natural(parameters, z),
            log_evidence=float(total + frame.log_cell),
            state_mean=as_state(center),
            state_sd=as_state(np.sqrt(np.maximum(variance, 0.0))),
            _coordinates=self.coordinates,
            _surface=Surface(frame, scores - total - frame.log_cell + np.sum(np.log(np.diagonal(frame.axes)))),
        )


def change(of: GridPosterior, to: GridPosterior) -> Accuracy:
    """Return how far two posteriors of the same parameters lie apart, in the units of the first."""
    means, sds, other_means, other_sds = of.mean(), of.sd(), to.mean(), to.sd()
    names = of.parameters.names
    return Accuracy(
        mean=float(max(np.max(np.abs(means[name] - other_means[name]) / sds[name]) for name in names)),
        log_sd=float(max(np.max(np.abs(np.log(sds[name] / other_sds[name]))) for name in names)),
        log_evidence=abs(of.log_evidence - to.log_evidence),
    )


def natural(parameters: Parameters, z: Float[np.ndarray, "node param"]) -> dict[str, np.ndarray]:
    """Return coordinates on the natural scale, by name; to be called with float64 on."""
    theta = jax.vmap(parameters.constrain)(jnp.asarray(z))
    return {name: np.asarray(values) for name, values in theta.items()}

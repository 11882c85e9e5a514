"""The posterior of theta on a grid: the same questions as a filter's posterior, answered by quadrature.

Means and sds are sums over the nodes (the trapezoid rule). Quantiles, densities and draws read between the nodes; see
`surface`. All numbers are NumPy float64.
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

from paramfilter.labels import prior_in_brief
from paramfilter.parameters import Parameters
from paramfilter.references.problem import NodeAnswers, Problem
from paramfilter.references.surface import Surface
from paramfilter.references.theta_grid import Coordinates, Frame, log_prior_of, prior_coordinates, prior_frame, zoom
from paramfilter.types import KeyArray, State, Theta


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

        Exact to the spline for parameters whose support acts on each component by itself; for others (a simplex) from
        the weighted points of the finer grid.
        """
        shares = np.asarray(q, np.float64)
        with jax.enable_x64(True):
            rows = [self._quantiles(float(share)) for share in np.atleast_1d(shares)]
        stacked = {name: np.stack([row[name] for row in rows]) for name in self.parameters.names}
        return stacked if shares.ndim else {name: np.asarray(values[0]) for name, values in stacked.items()}

    def log_prob(self, theta: Theta) -> np.ndarray:
        """Return the posterior log density on the natural scale; -inf outside the window of the grid.

        Values may have leading axes, the same for each parameter: then so does the answer.
        """
        self.parameters.check_names(theta)
        first = self.parameters.names[0]
        leading = np.shape(theta[first])[: np.ndim(theta[first]) - len(self.parameters.prior[first].shape())]
        with jax.enable_x64(True):
            rows = {
                name: jnp.asarray(np.reshape(theta[name], (-1, *self.parameters.prior[name].shape())), jnp.float64)
                for name in self.parameters.names
            }
            z = jax.vmap(self.parameters.unconstrain)(rows)
            log_jacobian = np.asarray(jax.vmap(self.parameters.log_volume)(z))
        v = self._coordinates.from_z(np.asarray(z))
        frame = self._surface.frame
        density_v = self._surface.log_prob(frame.from_v(v)) - np.sum(np.log(np.diagonal(frame.axes)))
        return np.reshape(density_v - self._coordinates.log_jacobian(v) - log_jacobian, leading)

    def sample(self, key: KeyArray, n: int) -> dict[str, np.ndarray]:
        """Draw `n` values of theta, each parameter with a leading axis of length n."""
        with jax.enable_x64(True):
            v = self._surface.sample(key, n)
            return natural(self.parameters, self._coordinates.to_z(v))

    def _quantiles(self, share: float) -> dict[str, np.ndarray]:
        signs = _monotone_signs(self.parameters, self.z)
        answers = {}
        for name in self.parameters.names:
            own_signs = signs[name]
            if own_signs is None:
                answers[name] = self._weighted_quantile(name, share)
                continue
            v = np.zeros(self.parameters.dimension)
            where = self.parameters.slices[name]
            for coordinate, sign in zip(range(where.start, where.stop), own_signs, strict=True):
                v[coordinate] = self._surface.quantile(coordinate, share if sign > 0 else 1.0 - share)
            answers[name] = np.asarray(natural(self.parameters, self._coordinates.to_z(v)[None])[name][0])
        return answers

    def _weighted_quantile(self, name: str, share: float) -> np.ndarray:
        v = self._surface.frame.to_v(self._surface.fine_points)
        values = natural(self.parameters, self._coordinates.to_z(v))[name]
        components = values.reshape(len(values), -1)
        weights = self._surface.fine_density / self._surface.fine_density.sum()
        order = np.argsort(components, axis=0)
        middle = [np.cumsum(weights[column]) - 0.5 * weights[column] for column in order.T]
        found = [np.interp(share, middle[k], components[order[:, k], k]) for k in range(components.shape[1])]
        return np.reshape(found, values.shape[1:])


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

    def first_frame(self, num_nodes: int | None, default: dict[int, int]) -> Frame:
        """Return the window to begin with, with the nodes asked for or those of its dimension."""
        dimension = self.problem.model.parameters.dimension
        return prior_frame(dimension, num_nodes or default[dimension])

    def zoom(self, answer: Callable[[np.ndarray], NodeAnswers], frame: Frame, free_nodes: bool) -> Frame:
        """Find the window in which the posterior lives; `answer` was last called at its nodes."""
        log_density = lambda v: self.log_prior(v) + answer(self.coordinates.to_z(v)).log_likelihood
        return zoom(log_density, frame, free_nodes=free_nodes)

    def posterior(self, frame: Frame, answers: NodeAnswers) -> GridPosterior:
        """Put the answers of all nodes together: Bayes' rule and a mixture over nodes."""
        scores = self.log_prior(frame.nodes) + answers.log_likelihood
        if np.any(np.isnan(scores)):
            warnings.warn(
                f"the model's likelihood is NaN at {np.mean(np.isnan(scores)):.0%} of the nodes of theta, which count "
                "as impossible. Bound the prior, so that it gives no weight to such values.",
                stacklevel=4,
            )
            scores = np.where(np.isnan(scores), -np.inf, scores)
        total = np.asarray(logsumexp(scores))
        weights = np.exp(scores - total)
        center = _weighted_sum(weights, answers.state_mean)
        variance = _weighted_sum(weights, answers.state_variance + (answers.state_mean - center) ** 2)
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


def _monotone_signs(parameters: Parameters, z: Float[np.ndarray, "node param"]) -> dict[str, np.ndarray | None]:
    """Tell whether each parameter's components rise (+1) or fall (-1) with their own coordinate; None if mixed."""
    point = jnp.asarray(np.mean(z, axis=0))
    signs: dict[str, np.ndarray | None] = {}
    for name in parameters.names:
        where = parameters.slices[name]

        def block(part, name=name, where=where):
            return jnp.ravel(parameters.constrain(point.at[where].set(part))[name])

        slopes = np.asarray(jax.jacfwd(block)(point[where]))
        own = np.diagonal(slopes)
        alone = slopes.shape[0] == slopes.shape[1] and np.all(slopes == np.diag(own)) and np.all(own != 0.0)
        signs[name] = np.sign(own) if alone else None
    return signs

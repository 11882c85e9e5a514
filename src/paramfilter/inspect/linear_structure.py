"""Read the conjugate structure off a user's model: which parameters are coefficients, which are variances, what hangs
together.

A model is conjugate here if, given the states, it is a set of Gaussian linear regressions. Each component of x' and
of y is a
*response*; its mean is linear in the coefficients (parameters with Normal priors), its variance is known or is one
unknown variance (InverseGamma prior) times something known:

    response_j = offset_j(x) + F_j(x) . beta + N(0, v_k s_j(x)^2)      or      N(0, s_j(x)^2)

All of it is found by trying the model's own functions at draws from the prior, in float64: Jacobians of the means,
slopes of the scales. Responses and parameters that touch each other form a *block*; blocks are independent given the
states. A block may have one unknown variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.errors import BeliefError
from paramfilter.gaussian import Gaussian, gaussian_of, known_gaussian
from paramfilter.inspect.dependence import Dependence, dependence_of, probe_data
from paramfilter.model import StateSpaceModel, Transition
from paramfilter.tracing import evaluate

TOLERANCE = 1e-8
"""Relative change, in float64, below which a slope is taken to be constant."""

OTHERWISE = "Use Grid(), which takes any density of one or two parameters, or pf.auto_filter(model)."


@dataclass(frozen=True, eq=False)
class Block:
    """Parameters and responses that touch each other; indices into z and into the vector of responses."""

    coefficients: tuple[int, ...]
    variance: int | None
    responses: tuple[int, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """Of its parameters in z."""
        return self.coefficients if self.variance is None else (*self.coefficients, self.variance)


@dataclass(frozen=True, eq=False)
class LinearStructure:
    """A model as Gaussian linear regressions on its parameters."""

    model: StateSpaceModel
    depends: Dependence
    blocks: tuple[Block, ...]
    coefficient_mean: np.ndarray
    coefficient_covariance: np.ndarray
    shape: np.ndarray
    rate: np.ndarray

    def regression(self, datum: Transition) -> tuple[Float[Array, " response"], Float[Array, "response param"], Array]:
        """Return whitened residuals (at the prior mean, with unit unknown variances), whitened design, and the mask."""
        reference = jnp.asarray(self.coefficient_mean, float)  # log of the unknown variances is 0 there
        values = _response_values(self.depends, datum)
        observed = ~jnp.isnan(values)
        gaussian = _joint_gaussian(self.model, self.depends, reference, datum).observed_only(observed)
        design = jax.jacfwd(lambda z: _joint_gaussian(self.model, self.depends, z, datum).mean)(reference)
        residual = jnp.where(observed, values - gaussian.mean, 0.0)
        return (
            gaussian.whiten(residual),
            gaussian.whiten(jnp.where(observed[:, None], design, 0.0)),
            observed,
        )


def linear_structure(model: StateSpaceModel) -> LinearStructure:
    """Find the conjugate structure of a model, or raise `BeliefError` saying where it breaks."""
    depends = dependence_of(model)
    if depends.initial:
        raise BeliefError(f"Conjugate needs an initial distribution that does not depend on theta. {OTHERWISE}")
    priors = _read_priors(model)
    with jax.enable_x64(True):
        z, data = probe_data(model)
        _require_gaussians(model, depends, z, data)
        touches, exponents, linked = _probe_structure(model, depends, priors.is_variance, z, data)
    blocks = _find_blocks(model, priors, touches, exponents, linked)
    return LinearStructure(model, depends, blocks, priors.mean, priors.covariance, priors.shape, priors.rate)


@dataclass(frozen=True, eq=False)
class _Priors:
    is_variance: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    shape: np.ndarray
    rate: np.ndarray


def _read_priors(model: StateSpaceModel) -> _Priors:
    """Collect Normal priors as one Gaussian and InverseGamma priors as shapes and rates, in the order of z."""
    size = model.parameters.dimension
    is_variance, mean, covariance = np.zeros(size, bool), np.zeros(size), np.zeros((size, size))
    shape, rate = np.ones(size), np.ones(size)
    for name, prior in model.prior.items():
        place = model.parameters.slices[name]
        inner = distributions.components(prior)
        family = inner.base_dist if isinstance(inner, dist.ExpandedDistribution) else inner
        gaussian = evaluate(lambda law=prior: gaussian_of(law))
        if gaussian is not None:
            scale = np.asarray(gaussian.scale)
            mean[place] = gaussian.mean
            covariance[place, place] = np.diag(scale**2) if scale.ndim == 1 else scale @ scale.T
        elif isinstance(family, dist.InverseGamma):
            is_variance[place] = True
            shape[place] = np.ravel(np.broadcast_to(family.concentration, prior.shape()))
            rate[place] = np.ravel(np.broadcast_to(family.rate, prior.shape()))
            covariance[place, place] = np.eye(place.stop - place.start)
        else:
            raise BeliefError(
                f'Conjugate needs Normal priors for coefficients and InverseGamma priors for variances; "{name}" has a '
                f"{type(family).__name__} prior. {OTHERWISE}"
            )
    if model.parameters.joint is not None:  # all its marginals are Gaussian, or it would have been refused above
        covariance = model.parameters.joint.covariance
    return _Priors(is_variance, mean, covariance, shape, rate)


def _laws(model, depends, z, datum):
    theta = model.parameters.constrain(z)
    if depends.transition:
        yield "transition", model.transition(theta, datum.x_prev, datum.inputs)
    if depends.observation:
        yield "observation", model.observation(theta, datum.x, datum.inputs)


def _joint_gaussian(model, depends, z, datum) -> Gaussian:
    return known_gaussian([law for _, law in _laws(model, depends, z, datum)])


def _response_values(depends: Dependence, datum: Transition) -> Float[Array, " response"]:
    parts = ((depends.transition, datum.x), (depends.observation, datum.y))
    return distributions.ravel([value for is_needed, value in parts if is_needed])


def _require_gaussians(model, depends, z, data) -> None:
    if not (depends.transition or depends.observation):
        raise BeliefError("nothing in this model depends on theta, so the data cannot teach it.")

    def check(z_one, datum):
        for label, law in _laws(model, depends, z_one, datum):
            if gaussian_of(law) is None:
                raise BeliefError(f"Conjugate needs a Gaussian {label} where theta enters. {OTHERWISE}")

    jax.eval_shape(jax.vmap(check), z, data)


def _probe_structure(model, depends, is_variance, z, data):
    """Return which responses touch which coefficients, the power of each variance in each response, and which responses
    have correlated noise."""

    def mean(point, datum):
        return _joint_gaussian(model, depends, point, datum).mean

    def scale(point, datum):
        return _joint_gaussian(model, depends, point, datum).scale

    @jax.jit
    def evaluate(points):
        return tuple(jax.vmap(f)(points, data) for f in (jax.jacfwd(mean), scale, jax.jacfwd(scale)))

    # scale: (probe, response[, response]); changes: the same with a last axis of parameters.
    slopes, scales, changes = (np.asarray(found) for found in evaluate(z))
    other_slopes = np.asarray(evaluate(np.roll(z, 1, axis=0))[0])
    if not np.allclose(slopes, other_slopes, rtol=TOLERANCE, atol=TOLERANCE) or np.any(slopes[:, :, is_variance] != 0):
        raise BeliefError(f"Conjugate needs means that are linear in theta; these are not. {OTHERWISE}")

    is_joint = scales.ndim == 3
    powers = 2 * changes / np.where(scales == 0, 1.0, scales)[..., None]
    if is_joint:
        diagonal = np.arange(scales.shape[1])
        expected = 0.5 * powers[:, diagonal, diagonal][:, :, None, :] * scales[..., None]
        if not np.allclose(expected, changes, rtol=TOLERANCE, atol=TOLERANCE):
            raise BeliefError(f"Conjugate needs a covariance that is known up to one unknown factor. {OTHERWISE}")
        powers = powers[:, diagonal, diagonal]
    rounded = np.round(powers[0])
    if not np.allclose(powers, rounded, atol=TOLERANCE) or not np.all(np.isin(rounded, [0, 1])):
        raise BeliefError(
            "Conjugate needs each noise variance to be known, or one InverseGamma parameter times something known "
            f"(write the scale as jnp.sqrt(variance)). {OTHERWISE}"
        )
    if np.any(rounded[:, ~is_variance] != 0) or np.any(rounded.sum(axis=1) > 1):
        raise BeliefError(f"Conjugate needs variances that depend on one InverseGamma parameter each. {OTHERWISE}")
    linked = np.any(scales != 0, axis=0) if is_joint else np.eye(scales.shape[1], dtype=bool)
    return np.any(slopes != 0, axis=0), rounded.astype(bool), linked


def _find_blocks(model, priors: _Priors, touches, exponents, linked) -> tuple[Block, ...]:
    """Group parameters (0..p-1) and responses (p..) that touch each other."""
    num_params, num_nodes = len(priors.is_variance), len(priors.is_variance) + len(touches)
    touching = np.eye(num_nodes, dtype=bool)
    touching[num_params:, :num_params] = touches | exponents
    touching[:num_params, :num_params] |= priors.covariance != 0
    touching[num_params:, num_params:] |= linked
    touching |= touching.T
    for _ in range(num_nodes.bit_length()):  # now those that are reached in two steps, four, eight, ...
        touching = touching @ touching

    blocks = []
    for members in dict.fromkeys(tuple(np.flatnonzero(row).tolist()) for row in touching[:num_params]):
        params = [node for node in members if node < num_params]
        responses = [node - num_params for node in members if node >= num_params]
        coefficients = tuple(node for node in params if not priors.is_variance[node])
        variances = [node for node in params if priors.is_variance[node]]
        is_mixed = len({tuple(exponents[response]) for response in responses}) > 1
        if len(variances) > 1 or (variances and is_mixed):
            names = [name for name in model.parameters.names if _covers(model, name, params)]
            raise BeliefError(
                f"the parameters {names} share coefficients across noises of different variance. {OTHERWISE}"
            )
        blocks.append(Block(coefficients, variances[0] if variances else None, tuple(responses)))
    return tuple(blocks)


def _covers(model: StateSpaceModel, name: str, params: list[int]) -> bool:
    place = model.parameters.slices[name]
    return any(place.start <= param < place.stop for param in params)

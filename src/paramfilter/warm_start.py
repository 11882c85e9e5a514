"""Begin where an offline fit ended: posterior draws in, a model with their distribution as its prior out.

The draws (from NumPyro, ArviZ or anything else) are fitted by a Gaussian in the unconstrained coordinates, which keeps
their correlations; the fit is good where the offline fit has seen enough data, and says so where it is not. Draws of
the last state, if there are any, become the distribution of x_0, together with how it hangs on theta.

To go the other way, `filter.posterior(state)` hands out draws: `sample`.

>>> import jax, numpyro.distributions as dist, paramfilter as pf
>>> model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0), q=dist.InverseGamma(3.0, 2.0))
>>> noise = jax.random.normal(jax.random.key(0), (2, 500))
>>> draws = {"phi": 0.8 + 0.05 * noise[0], "q": jax.numpy.exp(0.1 * noise[0] + 0.1 * noise[1])}
>>> from paramfilter.warm_start import model_from_draws
>>> warm = model_from_draws(model, draws)
>>> [round(float(value), 2) for value in warm.parameters.joint.covariance[0] / 0.05**2]
[0.95, 1.84]
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array

from paramfilter.arguments import require_kind
from paramfilter.errors import DataError
from paramfilter.inspect.probe import probe
from paramfilter.joint_prior import JointPrior, marginal
from paramfilter.model import StateSpaceModel
from paramfilter.parameters import Parameters

DRAWS_PER_PARAMETER = 20
"""Fewer make a covariance that is mostly noise."""

MOST_SKEW = 1.0
"""Skewness of a coordinate above which a Gaussian is a poor likeness: that of a lognormal with sd 0.3."""


def model_from_draws(model: StateSpaceModel, draws: Any, x: Any = None) -> StateSpaceModel:
    """Return the model with its prior replaced by the distribution of posterior draws.

    Args:
        model: The model whose parameters the draws are.
        draws: A dict of arrays by name with leading axes of draws, such as `mcmc.get_samples()`, or an ArviZ result
            with a `posterior`.
        x: Draws of the state at which the offline fit ended, in the same order; None keeps the model's `initial`.
    """
    require_kind(model, StateSpaceModel, "model", "The call is model_from_draws(model, draws).")
    parameters = model.parameters
    z = _coordinates(parameters, _by_name(draws, parameters))
    if len(z) < DRAWS_PER_PARAMETER * parameters.dimension:
        raise DataError(
            f"{len(z)} draws are too few for {parameters.dimension} parameters; give "
            f"{DRAWS_PER_PARAMETER * parameters.dimension} or more."
        )
    _warn_of_skew(z, parameters)
    mean, covariance = np.mean(z, axis=0), np.atleast_2d(np.cov(z, rowvar=False))
    marginals = {
        name: marginal(
            parameters.bijectors[name], parameters.prior[name].shape(), mean[place], covariance[place, place]
        )
        for name, place in parameters.slices.items()
    }
    prior = JointPrior(marginals, mean, covariance)
    initial = model.initial if x is None else _initial_law(model, z, x)
    return replace(model, prior=prior, initial=initial)


def _by_name(draws: Any, parameters: Parameters) -> dict[str, np.ndarray]:
    group = draws.posterior if hasattr(draws, "posterior") else draws
    missing = [name for name in parameters.names if name not in group]
    if missing:
        raise DataError(f"the draws have no {missing}; they must hold all of {list(parameters.names)}.")
    return {name: np.asarray(group[name], np.float64) for name in parameters.names}


def _coordinates(parameters: Parameters, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the draws as rows of z."""
    flat = {}
    for name, values in draws.items():
        shape = parameters.prior[name].shape()
        if values.shape[values.ndim - len(shape) :] != shape or values.ndim == len(shape):
            raise DataError(
                f'the draws of "{name}" have shape {values.shape}; wanted are leading axes of draws, then {shape}.'
            )
        flat[name] = values.reshape(-1, *shape)
    if len({len(values) for values in flat.values()}) != 1:
        raise DataError("the parameters have different numbers of draws; they must be drawn together.")
    with jax.enable_x64(True):
        z = np.asarray(jax.jit(jax.vmap(parameters.unconstrain))({k: jnp.asarray(v) for k, v in flat.items()}))
    bad = [name for name, place in parameters.slices.items() if not np.all(np.isfinite(z[:, place]))]
    if bad:
        raise DataError(f"some draws of {bad} are not finite, or outside the support of the model's prior.")
    return z


def _warn_of_skew(z: np.ndarray, parameters: Parameters) -> None:
    standard = (z - np.mean(z, axis=0)) / np.std(z, axis=0)
    skew = np.abs(np.mean(standard**3, axis=0))
    names = [name for name, size in zip(parameters.coordinate_names, skew, strict=True) if size > MOST_SKEW]
    if names:
        warnings.warn(
            f"the draws of {names} are far from Gaussian in the unconstrained coordinates (skewness above "
            f"{MOST_SKEW:g}), so the filter starts from a rough likeness. Let the offline fit see more data.",
            stacklevel=3,
        )


def _initial_law(model: StateSpaceModel, z: np.ndarray, x: Any):
    """Return x_0 given theta as a Gaussian, by linear regression of the draws of x on those of z."""
    shapes = jax.tree.leaves(probe(model).x)
    if len(shapes) != 1 or len(shapes[0].shape) > 1:
        raise DataError("x can be given for a state that is one number or one vector; leave it out for this model.")
    shape = shapes[0].shape
    rows = np.asarray(x, np.float64).reshape(-1, *shape).reshape(len(z), -1)
    if not np.all(np.isfinite(rows)):
        raise DataError("some draws of x are not finite.")
    center, middle = np.mean(z, axis=0), np.mean(rows, axis=0)
    slopes, *_ = np.linalg.lstsq(z - center, rows - middle, rcond=None)
    rest = rows - middle - (z - center) @ slopes
    factor = np.linalg.cholesky(np.atleast_2d(np.cov(rest, rowvar=False)))
    unconstrain = model.parameters.unconstrain

    def initial(theta, inputs):
        offset: Array = unconstrain(theta) - jnp.asarray(center, float)
        mean = jnp.asarray(middle, float) + offset @ jnp.asarray(slopes, float)
        if shape == ():
            return dist.Normal(mean[0], float(factor[0, 0]))
        return dist.MultivariateNormal(mean, scale_tril=jnp.asarray(factor, float))

    return initial

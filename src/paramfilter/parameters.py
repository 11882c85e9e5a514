"""Parameters by name: supports taken from their priors, and one vector of unconstrained coordinates.

The user thinks in `theta = {"phi": 0.9, "sigma": 0.1}`; samplers and polynomials want a point z of R^p. The support of
each prior gives a bijector (`numpyro.distributions.biject_to`): the identity on the real line, a logarithm for positive
numbers, a logit for an interval. Densities in z carry the Jacobian, so nothing is lost on the way.

>>> import numpyro.distributions as dist
>>> parameters = Parameters({"phi": dist.Normal(0.0, 1.0), "sigma": dist.HalfNormal(1.0)})
>>> parameters.dimension
2
>>> z = parameters.unconstrain({"phi": 0.5, "sigma": 1.0})
>>> [round(float(value), 3) for value in z]
[0.5, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.distributions import ImproperUniform, biject_to

from paramfilter.arguments import kind_of
from paramfilter.errors import ModelError
from paramfilter.joint_prior import JointPrior
from paramfilter.tracing import evaluate, is_traced
from paramfilter.types import KeyArray, Theta

NUM_PRIOR_DRAWS = 4096
"""Draws kept from the prior: enough for its median and spread."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """The unknowns of a model: their names, priors, shapes and coordinates."""

    prior: Mapping[str, Any]

    def __post_init__(self):
        if not isinstance(self.prior, Mapping) or not self.prior:
            found = "an empty dict" if isinstance(self.prior, Mapping) else kind_of(self.prior)
            raise ModelError(
                "prior must be a dict of named distributions with at least one entry, for example "
                f'{{"theta": dist.Normal(0.0, 1.0)}}; got {found}.'
            )
        for name, distribution in self.prior.items():
            _check_prior(name, distribution)
        _ = self.prior_draws  # refuses a prior that is not finite

    @cached_property
    def prior_draws(self) -> Float[np.ndarray, "draw param"]:
        """Draws from the prior, made once: whoever tries a model out or needs the prior's spread uses these."""

        def draw(key):
            z = self.sample(key)
            theta = self.constrain(z)
            scores = {name: jnp.sum(prior.log_prob(theta[name])) for name, prior in self.prior.items()}
            return z, theta, scores

        def draw_all(seed):
            return jax.vmap(draw)(jax.random.split(jax.random.key(seed), NUM_PRIOR_DRAWS))

        try:
            draws, thetas, scores = evaluate(draw_all, np.uint32(0))
        except NotImplementedError as error:
            raise ModelError(f"a prior cannot be drawn from ({error!r}). {_cure(self.names[0])}") from error
        for name in self.names:
            values, densities = np.asarray(thetas[name]), np.asarray(scores[name])
            if not np.all(np.isfinite(values)) or not np.all(np.isfinite(densities)):
                raise ModelError(
                    f'the prior of "{name}" is not finite: it draws {np.ravel(values)[:3]} with log densities '
                    f"{densities[:3]}. {_cure(name)}"
                )
            if np.all(values == values[0]):
                raise ModelError(
                    f'the prior of "{name}" holds one value only, so there is nothing to learn. Write the value into '
                    "the model as a constant, and leave the name out of the prior."
                )
        return np.asarray(draws, np.float64)

    @cached_property
    def prior_sd(self) -> Float[np.ndarray, " param"]:
        """The prior's sd of each unconstrained coordinate, from its draws."""
        return np.std(self.prior_draws, axis=0)

    @property
    def joint(self) -> JointPrior | None:
        """The prior as one Gaussian over z, if it is given as such."""
        return self.prior if isinstance(self.prior, JointPrior) else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names in the order of the user's dict, which is the order of the coordinates."""
        return tuple(self.prior)

    @cached_property
    def bijectors(self) -> dict[str, Any]:
        """For each name the map from unconstrained coordinates to the prior's support."""
        # The bounds of some supports are computed; a value remembered from inside a trace would not outlive it.
        with jax.ensure_compile_time_eval():
            return {name: biject_to(distribution.support) for name, distribution in self.prior.items()}

    @cached_property
    def slices(self) -> dict[str, slice]:
        """For each name its place in the vector of unconstrained coordinates."""
        ends, start = {}, 0
        for name, distribution in self.prior.items():
            size = math.prod(self.bijectors[name].inverse_shape(distribution.shape()))
            ends[name] = slice(start, start + size)
            start += size
        return ends

    @property
    def coordinate_names(self) -> list[str]:
        """A name for each unconstrained coordinate: the parameter's own, with a number if it has several."""
        names = []
        for name, place in self.slices.items():
            size = place.stop - place.start
            names += [name] if size == 1 else [f"{name}[{index}]" for index in range(size)]
        return names

    @property
    def dimension(self) -> int:
        """The number p of unconstrained coordinates."""
        return self.slices[self.names[-1]].stop

    def constrain(self, z: Float[Array, " param"]) -> dict[str, Array]:
        """Map coordinates to named parameters on their natural scale."""
        return {name: self.bijectors[name](self._block(name, z)) for name in self.names}

    @cached_property
    def constrain_all(self) -> Callable[[Float[Array | np.ndarray, "draw param"]], dict[str, Array]]:
        """`constrain` for many points, compiled."""
        return jax.jit(jax.vmap(self.constrain))

    def unconstrain(self, theta: Theta) -> Float[Array, " param"]:
        """Map named parameters to coordinates."""
        theta = self.as_theta(theta)
        return jnp.concatenate([jnp.ravel(self.bijectors[name].inv(theta[name])) for name in self.names])

    def log_prior(self, z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return the prior's log density in the unconstrained coordinates, Jacobian included."""
        if self.joint is not None:
            return self.joint.log_density(z)
        theta = self.constrain(z)
        scores = [jnp.sum(self.prior[name].log_prob(theta[name])) for name in self.names]
        return sum(scores, start=self.log_volume(z))

    def log_volume(self, z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return log |d theta / d z|: what a density in z has more than one in theta."""
        total = jnp.zeros((), z.dtype)
        for name in self.names:
            block = self._block(name, z)
            total += jnp.sum(self.bijectors[name].log_abs_det_jacobian(block, self.bijectors[name](block)))
        return total

    def sample(self, key: KeyArray) -> Float[Array, " param"]:
        """Draw coordinates from the prior."""
        if self.joint is not None:
            return self.joint.sample(key)
        keys = jax.random.split(key, len(self.names))
        theta = {name: self.prior[name].sample(k) for name, k in zip(self.names, keys, strict=True)}
        return self.unconstrain(theta)

    def as_theta(self, theta: Theta) -> dict[str, Array | np.ndarray]:
        """Turn theta into arrays of the prior's shapes; refuse other names, shapes, and values outside the support."""
        self.check_names(theta)
        values = {}
        for name in self.names:
            shape = self.prior[name].shape()
            try:
                values[name] = _as_shape(theta[name], shape)
            except (TypeError, ValueError) as error:
                raise ModelError(
                    f'theta["{name}"] must be numbers of shape {shape}, as its prior is; got {kind_of(theta[name])}. '
                    "Give one value for each parameter, not draws of it."
                ) from error
            if not is_traced(values[name]) and not np.all(self.prior[name].support(values[name])):
                raise ModelError(
                    f'theta["{name}"] = {theta[name]} lies outside the support of its prior, '
                    f"{self.prior[name].support}. Give a value inside, on the natural scale, or widen the prior."
                )
        return values

    def check_names(self, theta: Theta) -> None:
        """Refuse a theta whose names are not those of the prior."""
        if not isinstance(theta, Mapping):
            raise ModelError(
                f'theta must be a dict with a value for each parameter, such as {{"{self.names[0]}": 0.5}}; got '
                f"{kind_of(theta)}."
            )
        missing, unknown = set(self.names) - set(theta), set(theta) - set(self.names)
        if missing or unknown:
            raise ModelError(
                f"theta must have the names of the prior, {list(self.names)}; "
                f"missing: {sorted(missing)}, unknown: {sorted(unknown)}. Give a value for "
                "each of these names and for no other."
            )

    def _block(self, name: str, z: Float[Array, " param"]) -> Array:
        shape = self.bijectors[name].inverse_shape(self.prior[name].shape())
        return jnp.reshape(z[self.slices[name]], shape)


def _as_shape(value: Any, shape: tuple[int, ...]) -> Array | np.ndarray:
    """Turn a value into floats of a shape: an array of NumPy, if it has a value."""
    if is_traced(value):
        return jnp.broadcast_to(jnp.asarray(value, float), shape)
    return np.broadcast_to(np.asarray(value, jnp.result_type(float)), shape)


def _check_prior(name: str, distribution: Any) -> None:
    """Refuse a prior that cannot be mapped to R^p."""
    is_distribution = hasattr(distribution, "sample") and hasattr(distribution, "support")
    if not is_distribution or isinstance(distribution, type):
        found = kind_of(distribution) if isinstance(distribution, type) else f"a {type(distribution).__name__}"
        raise ModelError(f'the prior of "{name}" is {found}, not a distribution. {_cure(name)}')
    if isinstance(distribution, ImproperUniform):
        raise ModelError(f'the prior of "{name}" is improper and cannot be drawn from. {_cure(name)}')
    if getattr(distribution.support, "is_discrete", False):
        raise ModelError(f'the prior of "{name}" is discrete; parameters are continuous here. {_cure(name)}')


def _cure(name: str) -> str:
    return f'Give "{name}" a proper continuous numpyro distribution, for example dist.Normal(0.0, 1.0).'

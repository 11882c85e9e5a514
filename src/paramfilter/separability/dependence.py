"""Which parts of a model speak of theta: found by trying, in float64, so that no work is spent on the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.model import Datum, StateSpaceModel, strongly_typed
from paramfilter.types import Inputs, KeyArray, State

NUM_PROBES = 16


@dataclass(frozen=True)
class Dependence:
    """Whether each part's log density changes with theta."""

    initial: bool
    transition: bool
    observation: bool


def probe_datum(key: KeyArray, model: StateSpaceModel, z: Float[Array, " param"], inputs: Inputs) -> Datum:
    """Draw one step from the model at a given theta."""
    key_initial, key_move, key_observe = jax.random.split(key, 3)
    theta = model.parameters.constrain(z)
    x0 = strongly_typed(model.sample_initial(key_initial, theta, inputs))
    x1 = strongly_typed(model.sample_transition(key_move, theta, x0, inputs))
    y = model.sample_observation(key_observe, theta, x1, inputs)
    return Datum(x0, x1, jax.tree.map(lambda leaf: leaf.astype(float), y), inputs)


def probe_data(model: StateSpaceModel, num_probes: int = NUM_PROBES) -> tuple[Float[Array, "draw param"], Datum]:
    """Draw several steps, each at its own theta from the prior, in the precision that is on."""
    return _probe_data(model, num_probes, jnp.result_type(float))


@lru_cache(maxsize=64)  # models are compared by identity
def _probe_data(model: StateSpaceModel, num_probes: int, precision: np.dtype):
    z = jnp.asarray(model.parameters.prior_draws[:num_probes], precision)
    keys = jax.random.split(jax.random.key(0), num_probes)
    draw = lambda key, point, inputs: probe_datum(key, model, point, inputs)
    return z, jax.jit(jax.vmap(draw))(keys, z, model.inputs_at(jnp.arange(num_probes)))


@lru_cache(maxsize=64)  # models are compared by identity
def dependence_of(model: StateSpaceModel) -> Dependence:
    """Find which parts of the model depend on theta, by their gradients at draws from the prior."""

    def parts(z, datum):
        theta = model.parameters.constrain(z)
        return jnp.stack(
            [
                model.initial_log_prob(theta, datum.x_prev, datum.inputs),
                model.transition_log_prob(theta, datum.x_prev, datum.x, datum.inputs),
                model.observation_log_prob(theta, datum.x, datum.y, datum.inputs),
            ]
        )

    with jax.enable_x64(True):
        z, data = probe_data(model)
        gradients = np.asarray(jax.jit(jax.vmap(jax.jacfwd(parts)))(z, data))
        # NaN counts as dependent: a gradient that cannot be taken is no proof of independence.
        changes = np.any(gradients != 0, axis=(0, 2))
    return Dependence(*(bool(change) for change in changes))


class ThetaFactors:
    """The log density of a step, restricted to the parts that depend on theta."""

    def __init__(self, model: StateSpaceModel):
        self.model = model
        self.depends = dependence_of(model)

    def initial(self, z: Float[Array, " param"], x: State, inputs: Inputs) -> Float[Array, ""]:
        """Return log p(x_0 | theta)."""
        return self.model.initial_log_prob(self.model.parameters.constrain(z), x, inputs)

    def step(self, datum: Datum, z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return log p(x | x_prev, theta) + log p(y | x, theta), without the parts that are free of theta."""
        seen = self.observation(datum, z)
        return self.transition(datum, z) + seen if self.depends.transition else seen

    def transition(self, datum: Datum, z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return log p(x | x_prev, theta), be it free of theta or not."""
        return self.model.transition_log_prob(self.model.parameters.constrain(z), datum.x_prev, datum.x, datum.inputs)

    def observation(self, datum: Datum, z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return log p(y | x, theta), or 0 if it is free of theta."""
        if not self.depends.observation:
            return jnp.zeros((), z.dtype)
        return self.model.observation_log_prob(self.model.parameters.constrain(z), datum.x, datum.y, datum.inputs)

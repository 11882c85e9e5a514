"""Which parts of a model speak of theta: found by trying, in float64, so that no work is spent on the others."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.inspect.once import once_per_model
from paramfilter.inspect.probe import trial
from paramfilter.model import StateSpaceModel, Transition
from paramfilter.types import Inputs, State

NUM_PROBES = 16


@dataclass(frozen=True)
class Dependence:
    """Whether each part's log density changes with theta."""

    initial: bool
    transition: bool
    observation: bool


def probe_data(
    model: StateSpaceModel, num_probes: int = NUM_PROBES
) -> tuple[Float[np.ndarray, "draw param"], Transition]:
    """Return several steps of the model's trial, each at its own theta from the prior, in the precision that is on."""
    found = trial(model)
    is_float = lambda leaf: np.issubdtype(leaf.dtype, np.floating)
    cast = lambda leaf: leaf[:num_probes].astype(jnp.result_type(float)) if is_float(leaf) else leaf[:num_probes]
    return jax.tree.map(cast, (found.z, found.datum))


@once_per_model
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

    trial(model)  # in the user's own precision
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

    def step(self, datum: Transition, z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return log p(x | x_prev, theta) + log p(y | x, theta), without the parts that are free of theta."""
        seen = self.observation(datum, z)
        return self.transition(datum, z) + seen if self.depends.transition else seen

    def transition(self, datum: Transition, z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return log p(x | x_prev, theta), be it free of theta or not."""
        return self.model.transition_log_prob(self.model.parameters.constrain(z), datum.x_prev, datum.x, datum.inputs)

    def observation(self, datum: Transition, z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return log p(y | x, theta), or 0 if it is free of theta."""
        if not self.depends.observation:
            return jnp.zeros((), z.dtype)
        return self.model.observation_log_prob(self.model.parameters.constrain(z), datum.x, datum.y, datum.inputs)

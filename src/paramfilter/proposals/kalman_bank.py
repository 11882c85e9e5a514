"""A Kalman filter in place of a state: each particle knows exactly where the state is, given its theta.

`with_kalman_filter(model)` makes a model whose state is the mean and the covariance of the given one's, and
`KalmanMove` takes an observation in, exactly, and weighs the particle by the observation's density. Nothing is drawn:
all that is random is theta. It is for models that are linear and Gaussian given theta, as most trackers are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from paramfilter import distributions
from paramfilter.errors import ModelError, ProposalError
from paramfilter.kalman import LinearModel, absorb, through
from paramfilter.model import StateSpaceModel
from paramfilter.probe import probe
from paramfilter.proposals.base import BoundProposal, Move, Proposal
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta

ASKER, OTHERWISE = "kalman_bank_filter", "use extended_parameter_filter(model, num_particles) instead."
NUM_TRIED = 3
"""Typical inputs at which a model is tried."""

KalmanState = dict[str, Array]
"""`mean`, a vector, and `covariance`, a matrix, of the state laid out as one vector."""


@dataclass(frozen=True)
class _Certain:
    """The law of what follows without doubt."""

    value: KalmanState

    def sample(self, key: KeyArray) -> KalmanState:
        """Return the only value there is."""
        return self.value

    def log_prob(self, value: KalmanState) -> Float[Array, ""]:
        """Return 0: nothing else can be asked for."""
        return jnp.zeros(())


@dataclass(frozen=True, eq=False)
class KalmanModel(StateSpaceModel):
    """A model whose state is the law of another's, which is linear and Gaussian given theta."""

    linear: LinearModel | None = None

    @property
    def original(self) -> StateSpaceModel:
        """The model that is filtered."""
        return self._filter.model

    def state_moments(self, x: KalmanState) -> tuple[State, State]:
        """Return mean and variance of each component, in the original's own shape."""
        return self._filter.to_state(x["mean"]), self._filter.to_state(jnp.diagonal(x["covariance"]))

    def sample_state(self, key: KeyArray, x: KalmanState) -> State:
        """Draw from the normal law; a component that is known for certain does no harm."""
        drawn = jax.random.multivariate_normal(key, x["mean"], x["covariance"], method="svd")
        return self._filter.to_state(drawn)

    @property
    def _filter(self) -> LinearModel:
        if self.linear is None:
            raise ModelError("a KalmanModel is made by proposals.with_kalman_filter.")
        return self.linear


@lru_cache(maxsize=64)  # models are compared by identity; whoever chooses a filter asks first, and makes it then
def with_kalman_filter(model: StateSpaceModel) -> KalmanModel:
    """Make the model in which a state is a mean and a covariance, or raise `ModelError` saying where it bends."""
    shapes = probe(model)
    vector, to_state = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes.x))
    linear = LinearModel(model, vector.size, to_state, ASKER, OTHERWISE)
    shape = _only_shape(shapes.y)
    with jax.enable_x64(True):
        linear.refuse_nonlinear(model.example_inputs, [model.inputs_at(np.array(time)) for time in range(NUM_TRIED)])

    def initial(theta: Theta, inputs: Inputs) -> _Certain:
        law = linear.initial(theta, inputs)
        return _Certain({"mean": law.mean, "covariance": law.covariance})

    def transition(theta: Theta, x: KalmanState, inputs: Inputs) -> _Certain:
        mean, covariance = through(x["mean"], x["covariance"], linear.transition(theta, inputs))
        return _Certain({"mean": mean, "covariance": covariance})

    def observation(theta: Theta, x: KalmanState, inputs: Inputs) -> dist.Distribution:
        mean, covariance = through(x["mean"], x["covariance"], linear.observation(theta, inputs))
        if mean.size == 1:
            return dist.Normal(mean.reshape(shape), jnp.sqrt(covariance.reshape(shape)))
        return dist.MultivariateNormal(mean, covariance)

    return KalmanModel(
        prior=model.prior,
        initial=initial,
        transition=transition,
        observation=observation,
        name=f"{model.name}, a Kalman filter a particle",
        example_inputs=model.example_inputs,
        typical_inputs=model.typical_inputs,
        linear=linear,
    )


def _only_shape(y: PyTree) -> tuple[int, ...]:
    leaves = jax.tree.leaves(y)
    if len(leaves) != 1 or leaves[0].ndim > 1:
        raise ModelError(f"{ASKER} needs an observation that is one number or one vector. Stack the sensors' values.")
    return leaves[0].shape


@dataclass(frozen=True)
class KalmanMove(Proposal):
    """Take the observation in exactly, and weigh the particle by its density."""

    def bind(self, model: StateSpaceModel) -> BoundProposal:
        """Fit a model made by `with_kalman_filter`."""
        if not isinstance(model, KalmanModel) or model.linear is None:
            raise ProposalError("KalmanMove needs a Kalman filter: make the model with proposals.with_kalman_filter.")
        return _BoundKalmanMove(model, model.linear)


@dataclass(frozen=True, eq=False)
class _BoundKalmanMove(BoundProposal):
    model: KalmanModel
    linear: LinearModel

    def propose(
        self, key: KeyArray, plan: Any, theta: Theta, x_prev: KalmanState, y: Observation, inputs: Inputs
    ) -> Move:
        before = self.model.sample_transition(key, theta, x_prev, inputs)
        look = self.linear.observation(theta, inputs)
        mean, covariance, log_density = absorb(before["mean"], before["covariance"], look, distributions.ravel(y))
        return Move({"mean": mean, "covariance": covariance}, log_density)

"""The particle filter as an inner filter: for states that no other one takes, such as jumps and unbounded counts.

    x_{t-1}                weighted particles, put in order and resampled at levels (i + u_t) / M of their weight
    x_t                    each moves by the proposal; the increment is the log of the mean weight

All nodes have the same random numbers u_t, and the same ones for particle i: nodes near each other then have nearly the
same particles, and their log likelihoods err together, which the posterior does not see. Order matters for that: it
makes the particle at a level change little with theta.

M. Pitt, Smooth particle filters for likelihood evaluation and maximisation (2002); S. Malik and M. Pitt, Particle
filters for continuous likelihood evaluation and maximisation, J. Econometrics 165 (2011).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Key

from paramfilter.arguments import whole_number
from paramfilter.errors import ProposalError
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.base import Constants, InnerFilter, InnerState, nodes_last
from paramfilter.nodes.inner.forecast import Forecast, forecast_of
from paramfilter.proposals import Bootstrap, BoundProposal, Guided
from paramfilter.tracing import strongly_typed
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta

NUM_PARTICLES = 128
FINER = 16
"""A check takes so many times as many particles."""


@dataclass(frozen=True, eq=False)
class Particles(InnerFilter):
    """Weighted states at each node, and how many observations they have seen."""

    proposal: BoundProposal
    num_particles: int
    seed: int = 0

    @classmethod
    def bind(cls, model: StateSpaceModel, num_particles: int = NUM_PARTICLES) -> Particles:
        """Fit any model; particles move toward the observation if the state is made of real numbers."""
        try:
            proposal = Guided().bind(model)
        except ProposalError:
            proposal = Bootstrap().bind(model)
        return cls(
            model, proposal, whole_number(num_particles, "num_particles", 2, "Give each node a few hundred at most.")
        )

    def finer(self) -> Particles:
        """Return the filter that this one is checked by."""
        return replace(self, num_particles=FINER * self.num_particles)

    @property
    def num_moves(self) -> int:
        """Moves from state to state that a step takes at each node."""
        return self.num_particles

    @property
    def name(self) -> str:
        return f"Particles({self.num_particles})"

    def start(self, theta: Theta, inputs: Inputs) -> InnerState:
        draw = lambda key: strongly_typed(self.model.sample_initial(key, theta, inputs))
        return {
            "states": jax.vmap(draw)(jax.random.split(jax.random.key(self.seed), self.num_particles)),
            "log_weights": jnp.full(self.num_particles, -math.log(self.num_particles), jnp.result_type(float)),
            "time": jnp.int32(0),
        }

    def step(
        self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs
    ) -> tuple[InnerState, Float[Array, " node"]]:
        keys, key_level = self._keys(x)
        level = jax.random.uniform(key_level)

        def one(theta, states, log_weights):
            ancestors = _resampled(states, log_weights, level)
            parents = jax.tree.map(lambda leaf: leaf[ancestors], states)

            def move(key, parent):
                plan = self.proposal.plan(theta, parent, y, inputs)
                return self.proposal.propose(key, plan, theta, parent, y, inputs)

            moved = jax.vmap(move)(keys, parents)
            total = jax.nn.logsumexp(moved.log_weight)
            return moved.x, moved.log_weight - total, total - math.log(self.num_particles)

        states, log_weights, log_likelihood = nodes_last(one)(constants, x["states"], x["log_weights"])
        return {"states": states, "log_weights": log_weights, "time": x["time"] + 1}, log_likelihood

    def _keys(self, x: InnerState) -> tuple[Key[Array, " particle"], KeyArray]:
        """Return the keys of this step, which all nodes share: one for each particle, and one more."""
        key = jax.random.fold_in(jax.random.key(self.seed), x["time"][0] + 1)
        return jax.random.split(key, self.num_particles), jax.random.fold_in(key, self.num_particles)

    def forecast(self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs) -> Forecast:
        keys, _ = self._keys(x)

        def one(theta, states):
            def look(key, state):
                moved = strongly_typed(self.model.sample_transition(key, theta, state, inputs))
                return forecast_of(self.model.observation(theta, moved, inputs), y)

            return jax.vmap(look, out_axes=1)(keys, states)

        return nodes_last(one)(constants, x["states"]).averaged(jnp.exp(x["log_weights"]))

    def moments(self, x: InnerState) -> tuple[State, State]:
        weights = jnp.exp(x["log_weights"]).T
        by_node = jax.tree.map(lambda leaf: jnp.moveaxis(leaf.astype(float), -1, 0), x["states"])
        average = jax.vmap(lambda weights, leaf: jnp.tensordot(weights, leaf, axes=1))
        mean = jax.tree.map(lambda leaf: average(weights, leaf), by_node)
        apart = jax.tree.map(lambda leaf, m: (leaf - m[:, None]) ** 2, by_node, mean)
        return mean, jax.tree.map(lambda leaf: average(weights, leaf), apart)

    def sample(self, key: KeyArray, x: InnerState) -> State:
        return jax.tree.map(lambda leaf: leaf[jax.random.categorical(key, x["log_weights"])], x["states"])


def _resampled(
    states: State, log_weights: Float[Array, " particle"], level: Float[Array, ""]
) -> Int[Array, " particle"]:
    """Return the particles at evenly spaced levels of the weight, once they are in order."""
    size = len(log_weights)
    order = jnp.argsort(_place(states))
    below = jnp.cumsum(jnp.exp(log_weights)[order])
    levels = (jnp.arange(size) + level) / size * below[-1]
    return order[jnp.minimum(jnp.searchsorted(below, levels, side="right", method="scan"), size - 1)]


def _place(states: State) -> Float[Array, " particle"]:
    """Return a number by which to put states in order: the sum of their components, each in units of its spread."""
    vectors = jax.vmap(lambda state: ravel_pytree(jax.tree.map(lambda leaf: leaf.astype(float), state))[0])(states)
    middle = jnp.median(vectors, axis=0)
    spread = jnp.mean(jnp.abs(vectors - middle), axis=0)
    return jnp.sum((vectors - middle) / jnp.where(spread > 0, spread, 1.0), axis=1)

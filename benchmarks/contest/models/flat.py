"""A `paramfilter` model as other JAX libraries want it: vectors for parameters and states, plain functions of a key.

The parameter vector is z, the unconstrained coordinates. The state vector is x laid out flat, with the number of its
observation behind it if the model reads inputs: they are looked up by it, as most libraries pass no inputs on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from benchmarks.contest.task import Posterior, Task, each_table, moments
from benchmarks.problems import CONTEST
from paramfilter.distributions import components, is_distribution
from paramfilter.model import StateSpaceModel


@dataclass(frozen=True, eq=False)
class FlatModel:
    """A model over flat vectors.

    Args:
        model: What it is made from.
        inputs: A table with a row for each observation, a dict of them, or None.
    """

    model: StateSpaceModel
    inputs: Any = None

    @property
    def parameters(self):
        """The unknowns and their coordinates."""
        return self.model.parameters

    @cached_property
    def template(self) -> Any:
        """The shapes and dtypes of a state."""
        draw = lambda key: self.model.sample_initial(key, self.parameters.constrain(self.parameters.sample(key)), None)
        return jax.eval_shape(draw, jax.random.key(0))

    @property
    def num_states(self) -> int:
        """The length of a state vector."""
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self.template)) + (self.inputs is not None)

    def start(self, key, z):
        """Draw x_0, which is not observed."""
        return self._flat(self.model.sample_initial(key, self.parameters.constrain(z), None), -1)

    def move(self, key, vector, z):
        """Draw the next state."""
        x, now = self._tree(vector)
        x = self.model.sample_transition(key, self.parameters.constrain(z), x, self._inputs(now + 1))
        return self._flat(x, now + 1)

    def first(self, key, z):
        """Draw x_1, the first state that is observed."""
        key_start, key_move = jax.random.split(key)
        return self.move(key_move, self.start(key_start, z), z)

    def score(self, y, vector, z):
        """Return log p(y | x, z); NaN in y is missing."""
        x, now = self._tree(vector)
        return self.model.observation_log_prob(self.parameters.constrain(z), x, y, self._inputs(now))

    def look_ahead(self, y, vector, z):
        """Return log p(y | x, z) at the center of the next state."""
        x, now = self._tree(vector)
        law = self.model.transition(self.parameters.constrain(z), x, self._inputs(now + 1))
        return self.score(y, self._flat(jax.tree.map(center, law, is_leaf=is_distribution), now + 1), z)

    def prior_draws(self, key, num: int):
        """Draw parameter vectors from the prior."""
        return jax.vmap(self.parameters.sample)(jax.random.split(key, num))

    def posterior(self, zs, weights=None, log_evidence=None) -> Posterior:
        """Return mean and sd on the natural scale."""
        thetas = jax.vmap(self.parameters.constrain)(jnp.asarray(zs))
        draws = {name: np.asarray(value, np.float64) for name, value in thetas.items()}
        return moments(draws, None if weights is None else np.asarray(weights, np.float64), log_evidence)

    def _inputs(self, now):
        return None if self.inputs is None else jax.tree.map(lambda table: table[now], self.inputs)

    def _flat(self, x, now):
        parts = [jnp.ravel(leaf).astype(float) for leaf in jax.tree.leaves(x)]
        return jnp.concatenate(parts if self.inputs is None else [*parts, jnp.asarray(now, float)[None]])

    def _tree(self, vector):
        leaves, structure = jax.tree.flatten(self.template)
        sizes = [math.prod(leaf.shape) for leaf in leaves]
        parts = jnp.split(vector[: sum(sizes)], np.cumsum(sizes)[:-1])
        x = [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in zip(parts, leaves, strict=True)]
        now = 0 if self.inputs is None else vector[-1].astype(int)
        return jax.tree.unflatten(structure, x), now


def flat_model(task: Task) -> FlatModel:
    """Return the model of a task with its inputs."""
    return FlatModel(model_of(task.problem), each_table(lambda table: jnp.asarray(table, float), task.inputs))


def model_of(problem: str) -> StateSpaceModel:
    """Return the model of a problem, priors included."""
    return CONTEST[problem].model()


def center(law: Any) -> Any:
    """Return the value that a look-ahead takes for the next state: the likeliest, the location or the mean."""
    inner = components(law)
    if isinstance(inner, dist.BernoulliProbs | dist.BernoulliLogits):
        return inner.mean > 0.5
    return inner.loc if hasattr(inner, "loc") else inner.mean


def remember_compiled(folder: str) -> None:
    """Keep compiled functions in a folder, so that a library that compiles anew in each call does it once."""
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

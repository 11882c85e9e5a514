"""Try a model out before data arrive, and refuse what cannot work, with the cure.

A filter calls `probe(model)` when it is built. A few parameters are drawn from the prior, and each goes through one
step: x_0, x_1, y_1 and their log densities. Wrong shapes, wrong return types and NaN are found here, not at t = 1201.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from paramfilter import distributions
from paramfilter.errors import ModelError
from paramfilter.model import StateSpaceModel, strongly_typed
from paramfilter.types import Inputs

NUM_PROBES = 64
REFUSED_SHARE = 0.5
"""A model that is NaN for more than this share of the prior is refused; for less, a warning names the share."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ModelShapes:
    """What one state and one observation look like: pytrees of `jax.ShapeDtypeStruct`.

    `whole` names, for each leaf of y, the kind of distribution that can only be missing as a whole, or is None.
    """

    x: Any
    y: Any
    whole: tuple[str | None, ...]


@lru_cache(maxsize=64)  # models are compared by identity
def probe(model: StateSpaceModel) -> ModelShapes:
    """Run one step of the model at draws from its prior; raise `ModelError` on what cannot be filtered."""
    inputs = model.example_inputs
    whole: list[str | None] = []

    def one_step(z):
        theta = model.parameters.constrain(z)
        x0 = _draw("initial(theta, inputs)", lambda: model.initial(theta, inputs), inputs)
        x1 = _draw("transition(theta, x, inputs)", lambda: model.transition(theta, x0, inputs), inputs)
        _same_structure(x0, x1)
        y1 = _draw("observation(theta, x, inputs)", lambda: model.observation(theta, x1, inputs), inputs)
        laws = jax.tree.leaves(model.observation(theta, x1, inputs), is_leaf=distributions.is_distribution)
        whole.extend(distributions.missing_only_whole(law) for law in laws)
        return x1, y1

    # Shapes are known without computing anything: tracing alone finds what is wrong with them.
    x, y = jax.eval_shape(one_step, jax.ShapeDtypeStruct((model.parameters.dimension,), jnp.result_type(float)))
    _refuse_nan(model)
    return ModelShapes(x, y, tuple(whole))


def _draw(label: str, build: Callable[[], Any], inputs: Inputs) -> Any:
    try:
        tree = build()
    except Exception as error:
        cure = (
            "If the model reads inputs, pass StateSpaceModel(..., example_inputs=...) with the inputs of one step."
            if inputs is None
            else "The probe used the model's example_inputs."
        )
        raise ModelError(f"{label} raised {type(error).__name__}: {error}. {cure}") from error
    leaves = jax.tree.leaves(tree, is_leaf=distributions.is_distribution)
    if not leaves or not all(distributions.is_distribution(leaf) for leaf in leaves):
        raise ModelError(
            f"{label} must return a distribution or a pytree of distributions, got {type(tree).__name__}. "
            "Return for example dist.Normal(mean, sd) instead of a number."
        )
    return strongly_typed(distributions.sample(jax.random.key(0), tree))


def _same_structure(x0: Any, x1: Any) -> None:
    first, second = _shapes(x0), _shapes(x1)
    if jax.tree.structure(first) != jax.tree.structure(second):
        raise ModelError(
            f"initial and transition must draw states of one structure: initial draws {_describe(first)}, transition "
            f"draws {_describe(second)}."
        )
    if jax.tree.leaves(first) != jax.tree.leaves(second):
        raise ModelError(
            f"initial and transition must draw states of one shape and dtype: initial draws {_describe(first)}, "
            f"transition draws {_describe(second)}. A scalar state needs a scalar mean; a vector state a mean and an "
            "initial law of the same length, for example dist.Normal(jnp.zeros(2), 1.0)."
        )


def _refuse_nan(model: StateSpaceModel) -> None:

    def one(key, z, inputs):
        key_initial, key_move, key_observe = jax.random.split(key, 3)
        theta = model.parameters.constrain(z)
        x0 = strongly_typed(model.sample_initial(key_initial, theta, inputs))
        x1 = strongly_typed(model.sample_transition(key_move, theta, x0, inputs))
        y1 = jax.tree.map(lambda leaf: leaf.astype(float), model.sample_observation(key_observe, theta, x1, inputs))
        values = (
            distributions.ravel(x0),
            distributions.ravel(x1),
            model.transition_log_prob(theta, x0, x1, inputs),
            distributions.ravel(y1),
            model.observation_log_prob(theta, x1, y1, inputs),
        )
        return [jnp.all(jnp.isfinite(value)) for value in values], theta

    keys = jax.random.split(jax.random.key(0), NUM_PROBES)
    finite, thetas = jax.jit(jax.vmap(one))(
        keys, jnp.asarray(model.parameters.prior_draws[:NUM_PROBES], float), model.inputs_at(jnp.arange(NUM_PROBES))
    )
    parts = ("initial", "transition", "log p(x | x_prev, theta)", "observation", "log p(y | x, theta)")
    for part, is_finite in zip(parts, finite, strict=True):
        share = 1.0 - float(jnp.mean(is_finite))
        if share == 0.0:
            continue
        worst = int(jnp.argmin(is_finite))
        theta = {name: value[worst].tolist() for name, value in thetas.items()}
        text = (
            f"{part} is not finite for {share:.0%} of {NUM_PROBES} draws from the prior, for example at theta={theta}. "
            "A logarithm or square root of a negative number, or an overflow? Bound the prior (its support bounds the "
            "parameter) or guard the expression."
        )
        if share > REFUSED_SHARE:
            raise ModelError(text)
        warnings.warn(text, stacklevel=4)
        return


def _shapes(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)


def _describe(shapes: Any) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", shapes))

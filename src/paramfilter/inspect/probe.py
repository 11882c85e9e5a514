"""Try a model out before data arrive, and refuse what cannot work, with the cure.

A filter calls `probe(model)` when it is built. A few parameters are drawn from the prior, and each goes through one
step: x_0, x_1, y_1 and their log densities. Wrong shapes, wrong return types and NaN are found here, not at t = 1201.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from paramfilter import distributions
from paramfilter.errors import ModelError
from paramfilter.gaussian import gaussian_of
from paramfilter.inspect.once import once_per_model
from paramfilter.model import StateSpaceModel, Transition, require_same_kind
from paramfilter.tracing import evaluate, strongly_typed

NUM_PROBES = 64
DENSITY = "log p(x | x_prev, theta)"
PARTS = ("initial", "transition", DENSITY, "observation", "log p(y | x, theta)")
REFUSED_SHARE = 0.5
"""A model that is NaN for more than this share of the prior is refused; for less, a warning names the share."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ModelShapes:
    """What one state and one observation look like: pytrees of `jax.ShapeDtypeStruct`.

    `whole` names, for each leaf of y, the kind of distribution that can only be missing as a whole, or is None.
    `supports` holds the values that the distribution of each leaf can take, or None if it takes all numbers.
    """

    x: Any
    y: Any
    whole: tuple[str | None, ...]
    supports: tuple[distributions.Support | None, ...]


@once_per_model
def probe(model: StateSpaceModel) -> ModelShapes:
    """Run one step of the model at draws from its prior; raise `ModelError` on what cannot be filtered."""
    inputs = model.example_inputs
    found: list[tuple[str | None, distributions.Support | None]] = []

    def one_step(theta):
        x0 = _draw("initial", model.initial(theta, inputs))
        x1 = _draw("transition", model.transition(theta, x0, inputs))
        require_same_kind(x0, x1)
        observation = model.observation(theta, x1, inputs)
        y1 = _draw("observation", observation)
        leaves = jax.tree.leaves(observation, is_leaf=distributions.is_distribution)
        found[:] = [(distributions.missing_only_whole(leaf), distributions.support_of(leaf)) for leaf in leaves]
        return x1, y1

    # Shapes are known without computing anything: tracing alone finds what is wrong with them.
    z = jax.ShapeDtypeStruct((model.parameters.dimension,), jnp.result_type(float))
    theta = jax.eval_shape(model.parameters.constrain, z)
    program, (x, y) = jax.make_jaxpr(one_step, return_shape=True)(theta)
    _refuse_other_randomness(program, jax.make_jaxpr(lambda theta: one_step(theta))(theta))
    _name_unused(program.jaxpr, theta)
    _refuse_nan(model)
    return ModelShapes(x, y, *map(tuple, zip(*found, strict=True)))


def _refuse_other_randomness(one: Any, other: Any) -> None:
    """Refuse a model whose program is another one each time it is traced: it draws from numpy.random or the like."""
    same = str(one.jaxpr) == str(other.jaxpr) and all(
        np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")
        for a, b in zip(one.consts, other.consts, strict=True)
    )
    if not same:
        raise ModelError(
            "the model is another one each time it is called: it seems to draw from numpy.random or random, whose "
            "number JAX would keep for good when it compiles. Return a distribution, and the filter draws from it."
        )


def _name_unused(program: jax.extend.core.Jaxpr, theta: Any) -> None:
    """Warn of parameters that no line of the traced model reads."""
    read = {id(variable) for line in program.eqns for variable in line.invars}
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(theta)]
    unused = [path[0].key for path, variable in zip(paths, program.invars, strict=True) if id(variable) not in read]
    if unused:
        warnings.warn(
            f"the model never uses {', '.join(map(repr, unused))}, so nothing is learned about it, and its posterior "
            "stays its prior. Use it in initial, transition or observation, or take it out of the prior.",
            stacklevel=4,
        )


def _draw(part: str, law: distributions.DistributionTree) -> Any:
    try:
        return strongly_typed(distributions.sample(jax.random.key(0), law))
    except Exception as error:
        raise ModelError(
            f"{part} returns a law that cannot be drawn from: {type(law).__name__}.sample(key) raised "
            f"{type(error).__name__}: {error}. Return a numpyro distribution, for example dist.Normal(mean, sd)."
        ) from error


@dataclass(frozen=True)
class Trial:
    """One step of a model at each of some draws from its prior, as NumPy arrays with a leading axis of draws.

    Attributes:
        z: The parameters.
        datum: What the step gave.
        are_finite: For each part of the model, whether what it gave is finite.
        is_still: Whether some component of the state moves without noise, so that its move has no density.
    """

    z: Float[np.ndarray, "draw param"]
    datum: Transition
    are_finite: dict[str, Bool[np.ndarray, " draw"]]
    is_still: Bool[np.ndarray, " draw"]


@once_per_model
def trial(model: StateSpaceModel) -> Trial:
    """Run one step of the model at each of `NUM_PROBES` draws from its prior, in the precision that is on.

    It is run once, and whoever has to find out something about a model begins with these steps.
    """

    def one(key, z, inputs):
        key_initial, key_move, key_observe = jax.random.split(key, 3)
        theta = model.parameters.constrain(z)
        x0 = strongly_typed(model.sample_initial(key_initial, theta, inputs))
        x1 = strongly_typed(model.sample_transition(key_move, theta, x0, inputs))
        y1 = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, float), model.sample_observation(key_observe, theta, x1, inputs)
        )
        values = (
            distributions.ravel(x0),
            distributions.ravel(x1),
            model.transition_log_prob(theta, x0, x1, inputs),
            distributions.ravel(y1),
            model.observation_log_prob(theta, x1, y1, inputs),
        )
        is_still = _has_no_noise(model.transition(theta, x0, inputs))
        are_finite = [jnp.all(jnp.isfinite(value)) for value in values]
        are_finite[PARTS.index(DENSITY)] |= is_still
        return (x0, x1, y1), are_finite, is_still

    def all_of_them(seed, z, inputs):
        return jax.vmap(one)(jax.random.split(jax.random.key(seed), NUM_PROBES), z, inputs)

    z = model.parameters.prior_draws[:NUM_PROBES].astype(jnp.result_type(float))
    inputs = model.inputs_at(np.arange(NUM_PROBES))
    try:
        (x0, x1, y1), are_finite, is_still = jax.device_get(evaluate(all_of_them, np.uint32(0), z, inputs))
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).strip().rpartition("\n")[2]
        raise ModelError(f"the model raised while it was run ({reason}). Call its functions by hand first.") from error
    return Trial(z, Transition(x0, x1, y1, inputs), dict(zip(PARTS, are_finite, strict=True)), is_still)


def _has_no_noise(law: distributions.DistributionTree) -> Bool[Array, ""]:
    """Tell whether some component of a Gaussian distribution has the standard deviation 0."""
    found = gaussian_of(law)
    if found is None:
        return jnp.bool_(False)
    return jnp.any((found.scale if found.is_diagonal else jnp.diagonal(found.scale)) == 0)


def require_densities(model: StateSpaceModel, asker: str) -> None:
    """Refuse a model whose state has components without noise."""
    if np.any(trial(model).is_still):
        raise ModelError(
            f"some components of the state of {model.name} move without noise, and {asker} needs the density of "
            "moves. If the model is linear and Gaussian given theta, node_filter(model) takes it as it is; else give "
            "these components a small noise of their own."
        )


def _refuse_nan(model: StateSpaceModel) -> None:
    found = trial(model)
    for part, is_finite in found.are_finite.items():
        share = 1.0 - float(np.mean(is_finite))
        if share == 0.0:
            continue
        worst = np.argmin(is_finite)
        thetas = model.parameters.constrain_all(found.z)
        theta = {name: np.asarray(values)[worst].tolist() for name, values in thetas.items()}
        text = (
            f"{part} is not finite for {share:.0%} of {NUM_PROBES} draws from the prior, for example at theta={theta}. "
            "A scale below zero, a logarithm or square root of a negative number, or an overflow? Bound the prior (its "
            "support bounds the parameter) or guard the expression."
        )
        if share > REFUSED_SHARE:
            raise ModelError(text)
        warnings.warn(text, stacklevel=4)
        return

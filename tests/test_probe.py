"""A model that cannot work is refused when the filter is built, with words that name the cause and the cure."""

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.inspect.probe import probe

PRIOR = {"a": dist.Normal(0.0, 1.0)}


def model(**changes):
    parts = {
        "prior": PRIOR,
        "initial": lambda theta, inputs: dist.Normal(0.0, 1.0),
        "transition": lambda theta, x, inputs: dist.Normal(theta["a"] * x, 1.0),
        "observation": lambda theta, x, inputs: dist.Normal(x, 1.0),
    }
    return pf.StateSpaceModel(**(parts | changes))


BAD_MODELS = {
    "transition of another shape": (
        {"transition": lambda theta, x, inputs: dist.Normal(theta["a"] * jnp.ones(2), 1.0)},
        ["float32[]", "float32[2]", "of the same length"],
    ),
    "transition of another structure": (
        {"transition": lambda theta, x, inputs: {"x": dist.Normal(x, 1.0)}},
        ["one structure"],
    ),
    "transition returns a number": (
        {"transition": lambda theta, x, inputs: theta["a"] * x},
        ["must return a distribution", "dist.Normal(mean, sd)"],
    ),
    "unknown parameter": (
        {"transition": lambda theta, x, inputs: dist.Normal(theta["b"] * x, 1.0)},
        ["transition(theta, x, inputs) raised KeyError", "b"],
    ),
    "needs inputs": (
        {"transition": lambda theta, x, inputs: dist.Normal(theta["a"] * x * inputs["dt"], 1.0)},
        ["example_inputs"],
    ),
    "swapped arguments": (
        {"transition": lambda x, theta, inputs: dist.Normal(theta["a"] * x, 1.0)},
        ["transition(theta, x, inputs) raised"],
    ),
    "nan transition": (
        {"transition": lambda theta, x, inputs: dist.Normal(jnp.log(-1.0 - theta["a"] ** 2), 1.0)},
        ["transition is not finite for 100%", "theta={'a':", "Bound the prior"],
    ),
    "nan observation": (
        {"observation": lambda theta, x, inputs: dist.Normal(x, jnp.sqrt(-1.0 - x**2))},
        ["observation is not finite", "square root"],
    ),
    "nan density": (
        {"observation": lambda theta, x, inputs: dist.Normal(x, 0.0 * x)},
        ["log p(y | x, theta) is not finite"],
    ),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_bad_model_is_refused_when_the_filter_is_built(case):
    changes, words = BAD_MODELS[case]
    with pytest.raises(pf.errors.ModelError) as caught:
        pf.sir_filter(model(**changes), 10)
    for word in words:
        assert word in str(caught.value)


def test_a_model_that_is_nan_for_a_few_is_warned_about():
    risky = model(observation=lambda theta, x, inputs: dist.Normal(x, jnp.sqrt(1.0 - theta["a"])))
    with pytest.warns(UserWarning, match=r"not finite for \d+% of 64 draws"):
        probe(risky)


def test_inputs_and_pytree_states_are_welcome():
    tracker = pf.StateSpaceModel(
        prior=PRIOR,
        initial=lambda theta, inputs: {"place": dist.Normal(0.0, 1.0), "speed": dist.Normal(jnp.zeros(2), 1.0)},
        transition=lambda theta, x, inputs: {
            "place": dist.Normal(x["place"] + inputs["dt"] * x["speed"][0], 1.0),
            "speed": dist.Normal(theta["a"] * x["speed"], 1.0),
        },
        observation=lambda theta, x, inputs: dist.Poisson(jnp.exp(x["place"])),
        example_inputs={"dt": 0.1},
    )
    shapes = probe(tracker)
    assert shapes.x["speed"].shape == (2,) and shapes.y.shape == ()


@pytest.mark.parametrize("num_particles", [-3, 0, 1])
def test_too_few_particles_are_refused(num_particles):
    with pytest.raises(pf.errors.ModelError, match="at least 2"):
        pf.sir_filter(model(), num_particles)


def test_a_parameter_that_is_never_used_is_named():
    with pytest.warns(UserWarning, match="never uses 'b', 'c'"):
        probe(model(prior=PRIOR | {"b": dist.Normal(0.0, 1.0), "c": dist.Normal(jnp.zeros(2), 1.0).to_event(1)}))


def test_a_parameter_that_only_the_observation_uses_is_used(recwarn):
    probe(
        model(
            prior=PRIOR | {"b": dist.Normal(0.0, 1.0)},
            observation=lambda theta, x, inputs: dist.Normal(x + theta["b"], 1.0),
        )
    )
    assert not recwarn.list

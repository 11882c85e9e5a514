"""What the presets choose."""

import logging
import re

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.errors import ArgumentError
from paramfilter.particles import TaylorOfLogDensity, TaylorOfMean
from paramfilter.presets import PRESETS, choose_algorithm
from paramfilter.proposals import is_heavy_tailed
from paramfilter.tracing import RUN_ONCE


@pytest.mark.parametrize("name", ["extended_parameter_filter", "storvik_filter", "liu_west_filter", "sir_filter"])
def test_every_preset_of_particles_takes_the_options_of_the_loop(name):
    chosen = {"outliers": pf.OutlierGate(), "proposal": pf.proposals.Guided(), "resampling": pf.resampling.Systematic()}
    filter = PRESETS[name](pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5)), 8, **chosen)
    assert isinstance(filter, pf.ParticleFilter)
    assert {option: getattr(filter.engine, option) for option in chosen} == chosen


@pytest.mark.parametrize(
    ("model", "belief", "reason"),
    [
        (pf.models.sin, TaylorOfMean(7, 0.0), "only the means of Gaussians"),
        (pf.models.star, TaylorOfMean(7, 0.0), "only the means of Gaussians"),
        (pf.models.cauchy_ar1, TaylorOfLogDensity(7, 0.0), "the transition is no Gaussian (Cauchy)"),
    ],
)
def test_the_extended_parameter_filter_is_the_one_of_the_paper(model, belief, reason):
    filter = pf.extended_parameter_filter(model(), 100)
    assert filter.engine.belief == belief and reason in filter.choice
    assert (filter.engine.proposal, filter.engine.resampling) == (pf.proposals.Bootstrap(), pf.resampling.Multinomial())
    assert filter.engine.mixing is None and filter.engine.memory is None


@pytest.mark.parametrize(
    ("transition", "jumps"),
    [
        (lambda theta, x, inputs: dist.Cauchy(theta["a"] * x, 1.0), True),
        (lambda theta, x, inputs: dist.StudentT(3.0, theta["a"] * x, 1.0), True),
        (lambda theta, x, inputs: dist.Normal(theta["a"] * x, 1.0), False),
        (lambda theta, x, inputs: dist.Logistic(theta["a"] * x, 1.0), False),
        (lambda theta, x, inputs: dist.Poisson(jnp.exp(theta["a"]) + 0.0 * x), False),
    ],
)
def test_states_that_jump_are_told_from_others(transition, jumps):
    model = pf.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 0.2)},
        initial=lambda theta, inputs: transition(theta, 0.0, None),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x, 1.0),
    )
    assert is_heavy_tailed(model) == jumps


def two_parameters(transition, observation=lambda theta, x, inputs: dist.Normal(x, 1.0)):
    return pf.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 0.2), "b": dist.LogNormal(0.0, 0.2)},
        initial=lambda theta, inputs: transition(theta, 0, None),
        transition=transition,
        observation=observation,
        name="two",
    )


KINDS = {
    "linear": (lambda theta, x, inputs: dist.Normal(theta["a"] * x, theta["b"]), "node_filter", "Kalman"),
    "bent": (lambda theta, x, inputs: dist.Normal(jnp.sin(theta["a"] * x), theta["b"]), "node_filter", "Guided"),
    "two states": (
        lambda theta, x, inputs: dist.Bernoulli(logits=theta["a"] * x - theta["b"]),
        "node_filter",
        "FiniteState",
    ),
    "jumps": (
        lambda theta, x, inputs: dist.StudentT(3.0, theta["a"] * x, theta["b"]),
        "ParticleFilter",
        "may jump",
    ),
    "jumps without a variance": (
        lambda theta, x, inputs: dist.Cauchy(theta["a"] * x, theta["b"]),
        "ParticleFilter",
        "no filter without random numbers",
    ),
    "counts": (
        lambda theta, x, inputs: dist.Poisson(theta["b"] + 0.1 * x),
        "node_filter",
        "Counts",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_algorithm_is_chosen_for_a_model(kind):
    transition, name, reason = KINDS[kind]
    chosen = choose_algorithm(two_parameters(transition))
    assert chosen.name == name
    assert reason in chosen.reason


def test_several_sensors_are_one_observation():
    sensors = lambda theta, x, inputs: {"one": dist.Normal(x, 1.0), "other": dist.Normal(jnp.exp(x), 1.0)}
    chosen = choose_algorithm(two_parameters(KINDS["bent"][0], sensors))
    assert (chosen.name, chosen.num_particles) == ("node_filter", 512)
    assert "AssumedDensity" in chosen.reason


def test_a_chosen_filter_says_what_it_is(capsys, caplog):
    model = two_parameters(KINDS["linear"][0])
    caplog.set_level(logging.INFO, logger="paramfilter")
    filter = pf.auto_filter(model, 64)
    assert filter.choice == "node_filter(model, 64): Kalman; linear and Gaussian given theta: exact"
    assert f"two: {filter.choice}" in caplog.messages
    assert repr(filter) == "NodeFilter(two, 64 nodes, Kalman)"
    assert (filter.size, filter.model) == (64, model)
    assert capsys.readouterr().out == "", "a library does not print"


def test_a_filter_that_is_chosen_takes_outliers_and_a_memory():
    filter = pf.auto_filter(two_parameters(KINDS["jumps"][0]), 64, outliers=pf.OutlierGate(), memory=50.0)
    assert isinstance(filter, pf.ParticleFilter) and filter.engine.mixing == pf.particles.AncestorMixing(8)
    assert "Grid(49), LookAhead(" in filter.choice and filter.choice.endswith("approximate, not checked")
    assert (filter.engine.num_particles, filter.engine.outliers, filter.engine.memory) == (64, pf.OutlierGate(), 50.0)
    gated = pf.auto_filter(two_parameters(KINDS["linear"][0]), 64, outliers=pf.OutlierGate())
    assert isinstance(gated, pf.nodes.NodeFilter) and gated.engine.outliers == pf.OutlierGate(), "nodes gate as well"
    drifting = pf.auto_filter(two_parameters(KINDS["linear"][0]), 64, memory=50.0)
    assert isinstance(drifting, pf.nodes.NodeFilter) and drifting.engine.memory == 50, "nodes forget as well"


def test_more_parameters_than_nodes_can_cover_are_refused_with_what_can():
    model = pf.StateSpaceModel(
        prior={"slopes": dist.Normal(jnp.zeros(21), 1.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(0.0, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x + jnp.sum(theta["slopes"]), 1.0),
    )
    with pytest.raises(
        pf.errors.ModelError, match=r"at most 20 parameters.* 21.* NUTS in NumPyro or `references.pmmh`"
    ):
        pf.auto_filter(model)


def test_a_broken_model_is_not_a_reason_to_take_another_filter():
    broken = two_parameters(lambda theta, x, inputs: dist.Normal(jnp.log(-theta["b"]), 1.0))
    with pytest.raises(pf.errors.ModelError, match="initial is not finite"):
        pf.auto_filter(broken)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda model: pf.sir_filter(model, 64, resample=None),
            "sir_filter has no option 'resample'; did you mean",
        ),
        (
            lambda model: pf.node_filter(model, acuracy=0.1),
            "node_filter has no option 'acuracy'; did you mean",
        ),
        (lambda model: pf.auto_filter(model, 64, wings=2), "auto_filter has no option 'wings'. Its options are memory"),
    ],
)
def test_an_option_that_a_preset_does_not_have_is_refused_with_those_it_has(build, message):
    with pytest.raises(ArgumentError, match=re.escape(message)):
        build(pf.models.linear_gaussian())


def test_a_misspelled_public_name_is_answered_with_the_right_one():
    with pytest.raises(AttributeError, match="no name 'node_fliter'; did you mean node_filter"):
        _ = pf.node_fliter
    assert pf.Forecaster.__name__ in pf.__all__


def test_options_of_a_compiled_function_are_not_those_of_an_earlier_call():
    filter = pf.node_filter(pf.models.linear_gaussian(), 32)
    square = lambda engine, x: x * x
    plain, quick = filter.engine.compiled(square), filter.engine.compiled(square, compiler_options=RUN_ONCE)
    assert plain is not quick and filter.engine.compiled(square) is plain

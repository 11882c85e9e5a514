"""What the presets choose."""

import logging
import re

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.auto import choose_algorithm, choose_belief
from paramfilter.beliefs import Conjugate, CrossInterpolation, Grid
from paramfilter.errors import ArgumentError
from paramfilter.filters import NoMixing
from paramfilter.inspect.report import inspect_model
from paramfilter.presets import PRESETS
from paramfilter.proposals import is_heavy_tailed
from paramfilter.tracing import RUN_ONCE


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "node_filter"])
def test_every_preset_of_particles_takes_the_options_of_the_loop(name):
    chosen = {"num_islands": 2, "outliers": pf.OutlierGate()}
    if name != "auto_filter":  # which may take a filter that has an opinion on it
        chosen["resampling"] = pf.resampling.Stratified()
    filter = PRESETS[name](pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5)), 8, mixing=NoMixing(), **chosen)
    assert isinstance(filter, pf.ParticleFilter)
    assert {option: getattr(filter, option) for option in chosen} == chosen
    assert filter.bound_mixing == NoMixing()


@pytest.mark.slow
def test_a_preset_on_islands_skips_an_outlier():
    model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5))
    filter = pf.storvik_filter(model, 8, num_islands=2, outliers=pf.OutlierGate())
    state, ordinary = filter.step(filter.init(jax.random.key(0)), 0.5)
    _, wild = filter.step(state, 1e4)
    assert not ordinary.outcome & pf.Outcome.OUTLIER_SKIPPED
    assert wild.outcome & pf.Outcome.OUTLIER_SKIPPED


@pytest.mark.parametrize(("num_particles", "num_islands"), [(396, 1), (400, 4), (402, 1)])
def test_four_islands_of_a_hundred_particles_or_one(num_particles, num_islands):
    model = pf.models.sin()
    filters = (
        pf.extended_parameter_filter(
            model, num_particles, belief=pf.beliefs.PointMass(), proposal=pf.proposals.Bootstrap()
        ),
        pf.liu_west_filter(model, num_particles),
    )
    assert [filter.num_islands for filter in filters] == 2 * [num_islands]
    assert pf.liu_west_filter(model, num_particles, num_islands=2).num_islands == 2
    assert pf.sir_filter(model, num_particles).num_islands == 1


@pytest.mark.slow
def test_beliefs_are_chosen_that_two_ancestors_can_share():
    one = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5))
    both = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), q=dist.InverseGamma(5.0, 4.0))
    apart = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=dist.InverseGamma(5.0, 4.0))
    chosen = [choose_belief(model)[0] for model in (one, both, apart)]
    assert chosen == [Conjugate(), CrossInterpolation(), CrossInterpolation()]
    assert [inspect_model(model).recommended for model in (one, both)] == ["Conjugate", "CrossInterpolation"]


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


def test_a_model_that_jumps_has_one_island():
    model = pf.models.cauchy_ar1()
    filter = pf.extended_parameter_filter(model, 400, belief=Grid(17))
    assert filter.num_islands == 1
    assert "one island" in filter.choice
    assert pf.extended_parameter_filter(model, 400, belief=Grid(17), num_islands=2).num_islands == 2


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
        "extended_parameter_filter",
        "may jump",
    ),
    "jumps without a variance": (
        lambda theta, x, inputs: dist.Cauchy(theta["a"] * x, theta["b"]),
        "extended_parameter_filter",
        "without a variance",
    ),
    "counts": (
        lambda theta, x, inputs: dist.Poisson(theta["b"] + 0.1 * x),
        "extended_parameter_filter",
        "whole number",
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


def test_options_of_particles_ask_for_particles():
    model = two_parameters(KINDS["linear"][0])
    filter = pf.auto_filter(model, 64, outliers=pf.OutlierGate(), num_islands=2)
    assert isinstance(filter, pf.ParticleFilter)
    assert (filter.num_particles, filter.outliers, filter.num_islands) == (64, pf.OutlierGate(), 2)
    gated = pf.auto_filter(model, 64, outliers=pf.OutlierGate())
    assert isinstance(gated, pf.nodes.NodeFilter) and gated.outliers == pf.OutlierGate(), "nodes gate as well"


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
        (lambda model: pf.auto_filter(model, 64, wings=2), "auto_filter has no option 'wings'. Its options are health"),
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
    square = lambda filter, x: x * x
    plain, quick = filter.compiled(square), filter.compiled(square, compiler_options=RUN_ONCE)
    assert plain is not quick and filter.compiled(square) is plain

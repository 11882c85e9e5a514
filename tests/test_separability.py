"""What `inspect_model` says of models whose structure is known."""

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.auto import choose_belief
from paramfilter.beliefs import Conjugate, CrossInterpolation, Grid
from paramfilter.inspect import inspect_model
from paramfilter.inspect.cross import cross_of_prior


def test_the_blocks_of_a_model_are_found():
    report = inspect_model(pf.models.linear_gaussian(q=dist.LogNormal(0.0, 0.5), r=dist.LogNormal(-1.0, 0.5)))
    assert report.blocks == (("phi", "q"), ("r",))
    assert not report.conjugate and "LogNormal" in report.not_conjugate_because
    assert report.exact_rank == 5 and report.recommended == "CrossInterpolation"
    assert "exactly separable: 5 numbers" in str(report) and "phi, q | r" in str(report)


def seasonal(**inputs):
    """Make a model of which a single season shows only the product a exp(b u)."""
    return pf.StateSpaceModel(
        prior={"a": dist.Normal(1.0, 0.5), "b": dist.Normal(0.0, 0.5)},
        initial=lambda theta, u: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, u: dist.Normal(theta["a"] * jnp.exp(theta["b"] * u), 1.0),
        observation=lambda theta, x, u: dist.Normal(x, 0.5),
        **inputs,
    )


@pytest.mark.slow
def test_typical_inputs_show_what_one_example_hides():
    """log p(x' | theta) has the terms a e^(bu) and a^2 e^(2bu): two numbers for each season."""
    seasons = jnp.array([-1.0, 0.0, 1.0])
    assert inspect_model(seasonal(example_inputs=1.0)).exact_rank == 2
    model = seasonal(typical_inputs=seasons)
    assert inspect_model(model).exact_rank == 6
    assert model.example_inputs == -1.0
    assert model.inputs_at(jnp.arange(4)).tolist() == [-1.0, 0.0, 1.0, -1.0]


def test_a_parameter_that_changes_nothing_is_named():
    model = pf.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 0.5), "idle": dist.Normal(0.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["a"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
    )
    report = inspect_model(model)
    assert report.unidentified == ("idle",)
    assert "cannot teach: idle" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "belief"),
    [
        (pf.models.linear_gaussian, Conjugate()),
        (pf.models.sin, Grid(33)),
        (pf.models.cauchy_ar1, Grid(129)),
        (pf.models.stochastic_volatility, CrossInterpolation()),
    ],
)
def test_the_choice_suits_the_model(model, belief):
    assert choose_belief(model())[0] == belief


def test_the_choice_is_kept_with_its_reason():
    assert "Grid(num_values=33) (" in pf.extended_parameter_filter(pf.models.sin(), 10).choice


def test_a_model_is_decomposed_once_whoever_asks():
    model = pf.models.linear_gaussian()
    assert cross_of_prior(model) is cross_of_prior(model, None) is cross_of_prior(model, num_pivots=None)

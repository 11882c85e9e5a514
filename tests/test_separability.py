"""What `inspect_model` says of models whose structure is known."""

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.inspect import inspect_model


@pytest.mark.parametrize(
    ("model", "rank"),
    [
        (pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5)), 2),  # phi and phi^2
        (
            pf.models.linear_gaussian(q=dist.LogNormal(0.0, 0.5), r=dist.LogNormal(-1.0, 0.5)),
            5,
        ),
        (pf.models.sin(), None),
        (pf.models.cauchy_ar1(), None),
    ],
    ids=["one coefficient", "a coefficient and two variances", "sin", "Cauchy"],
)
def test_the_size_of_an_exact_statistic_is_found(model, rank):
    assert inspect_model(model).rank == rank


def test_why_a_model_is_not_conjugate_is_said():
    report = inspect_model(pf.models.linear_gaussian(q=dist.LogNormal(0.0, 0.5)))
    assert "LogNormal" in report.not_conjugate and "not conjugate" in str(report)
    assert inspect_model(pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5))).not_conjugate is None


def seasonal(**inputs):
    """Make a model of which a single season shows only the product a exp(b u)."""
    return pf.StateSpaceModel(
        prior={"a": dist.Normal(1.0, 0.5), "b": dist.Normal(0.0, 0.5)},
        initial=lambda theta, u: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, u: dist.Normal(theta["a"] * jnp.exp(theta["b"] * u), 1.0),
        observation=lambda theta, x, u: dist.Normal(x, 0.5),
        **inputs,
    )


def test_typical_inputs_show_what_one_example_hides():
    """log p(x' | theta) has the terms a e^(bu) and a^2 e^(2bu): two numbers for each season."""
    seasons = jnp.array([-1.0, 0.0, 1.0])
    assert inspect_model(seasonal(example_inputs=1.0)).rank == 2
    model = seasonal(typical_inputs=seasons)
    assert inspect_model(model).rank == 6
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

"""Mistakes in sums of components and in what they observe."""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist
from making_mistakes import Mistake, mistakes_about

import paramfilter as pf
from paramfilter import errors
from paramfilter import structural as st

MISTAKES: list[Mistake] = []

of_structure = mistakes_about("Structural models", MISTAKES)


@of_structure(errors.ArgumentError, "must be a sum such as", "Call the function: st.local_level()")
def component_without_brackets():
    st.model(st.local_level)


@of_structure(errors.ArgumentError, "observation must be a ObservationKind, got 'poisson'", "Pass st.gaussian()")
def observation_in_quotes():
    st.model(st.local_level(), observation="poisson")


@of_structure(errors.ModelError, 'two components have the name "seasonal"', 'name="weekly"')
def two_seasons_of_one_name():
    st.model(st.local_level() + st.seasonal(7) + st.freq_seasonal(365.25, 2))


@of_structure(errors.ModelError, '"level_sd" must be a number of at least 0', "got -1.0. Leave it out")
def negative_standard_deviation():
    st.model(st.local_level(sd=-1.0))


@of_structure(errors.ModelError, "got '0.5'", "Leave it out for the usual prior")
def damping_in_quotes():
    st.model(st.damped_trend(damping="0.5"))


@of_structure(errors.ModelError, "nothing to learn", "Leave out at least one of the numbers")
def structural_model_without_unknowns():
    st.model(st.local_level(sd=0.1), st.gaussian(sd=0.2))


@of_structure(errors.ModelError, "at most 6 harmonics, got harmonics=7", "Leave it out for all")
def more_harmonics_than_half_the_period():
    st.freq_seasonal(12, harmonics=7)


@of_structure(errors.ModelError, "whole number of at least 2, got 365.25", "after which the season repeats")
def dummies_of_a_period_that_is_not_whole():
    st.seasonal(365.25)


@of_structure(errors.ModelError, 'initial of "level" must be a dist.Normal', "For example dist.Normal(0.0, 10.0)")
def initial_distribution_that_is_not_normal():
    st.local_level(initial=dist.Cauchy(0.0, 1.0))


@of_structure(errors.ModelError, "no component has a level", "Add st.fixed_intercept()")
def center_without_a_level():
    st.model(st.autoregressive(), center=100.0)


@of_structure(errors.ArgumentError, "scale must be a positive number, got 0.0", "standard deviation of some data")
def scale_of_constant_data():
    st.model(st.local_level(), scale=0.0)


@of_structure(errors.ArgumentError, "list of names", 'such as ["rain"]')
def one_covariate_without_a_list():
    st.regression("rain")


@of_structure(errors.ArgumentError, "must be the name of an input", "Pass its values as inputs")
def exposure_as_an_array(ys):
    st.poisson(exposure=ys)


@of_structure(errors.DataError, "has no input 'population'", "Its inputs are people, rain")
def inputs_with_another_name(key):
    model = st.model(st.local_level() + st.regression(["rain"]), st.poisson("people"))
    inputs = {"rain": jnp.array([0.0, 1.0]), "population": jnp.array([3.0, 3.0])}
    pf.simulate(key, model, {"level_sd": 0.1}, num_steps=2, inputs=inputs)


@of_structure(errors.DataError, '"regression" with 2 numbers at each step, got inputs float32[3]', "Pass an array")
def covariates_of_another_number(key):
    model = st.model(st.local_level() + st.regression(2))
    theta = {"level_sd": 0.1, "observation_sd": 0.1}
    pf.simulate(key, model, theta, num_steps=2, inputs=jnp.ones((2, 3)))


@of_structure(errors.ArgumentError, "needs a filter for a structural model", "pf.structural.model(components")
def decomposition_of_another_model(filter, state):
    st.decompose(filter, state)

"""Mistakes in what a filter is made of: the model, its prior, a simulation from it, the parts of the filter."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpyro.distributions as dist
import scipy.stats
from making_mistakes import Mistake, build, mistakes_about, model

import paramfilter as pf
from paramfilter import errors

MISTAKES: list[Mistake] = []

# --- The model -----------------------------------------------------------------------------------------------------

of_model = mistakes_about("The model", MISTAKES)


@of_model(errors.ModelError, "initial must be a function, got a Normal", "initial=lambda theta, inputs:")
def initial_that_is_a_distribution_and_not_a_function():
    model(initial=dist.Normal(0.0, 1.0))


@of_model(errors.ModelError, "yours is transition(theta, x)", "Write transition=lambda theta, x, inputs:")
def transition_with_two_arguments():
    model(transition=lambda theta, x: dist.Normal(theta["phi"] * x, 1.0))


@of_model(errors.ModelError, "called with theta = {phi: float32[]}, x = float32[]", "arguments come in this order")
def transition_with_x_before_theta():
    build(transition=lambda x, theta, inputs: dist.Normal(theta["phi"] * x, 1.0))


@of_model(errors.ModelError, "raised KeyError: 'rho'. It was called with theta = {phi:", "add it to the prior")
def transition_that_reads_a_parameter_without_a_prior():
    build(transition=lambda theta, x, inputs: dist.Normal(theta["rho"] * x, 1.0))


@of_model(errors.ModelError, "must return a distribution", "for example dist.Normal(mean, sd)")
def transition_that_returns_a_number():
    build(transition=lambda theta, x, inputs: theta["phi"] * x)


@of_model(errors.ModelError, "got the class Normal", "Return a numpyro distribution")
def observation_that_returns_a_class():
    build(observation=lambda theta, x, inputs: dist.Normal)


@of_model(errors.ModelError, "got a rv_continuous_frozen", "Return a numpyro distribution")
def observation_from_scipy():
    build(observation=lambda theta, x, inputs: scipy.stats.norm())


@of_model(errors.ModelError, "initial draws float32[], transition draws float32[2]", "of the same length")
def transition_that_changes_the_shape_of_x():
    build(transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, jnp.ones(2)))


@of_model(
    errors.ModelError,
    "initial draws float32[], transition draws {place: float32[]}",
    "Give a scalar state a scalar mean",
)
def transition_that_changes_the_structure_of_x():
    build(transition=lambda theta, x, inputs: {"place": dist.Normal(theta["phi"] * x, 1.0)})


@of_model(errors.ModelError, "traced array", "jnp.where in place of if")
def transition_with_an_if():
    build(transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x if x > 0 else 0.0, 1.0))


@of_model(errors.ModelError, "traced array", "jax.numpy in place of math")
def transition_with_the_sine_of_math():
    build(transition=lambda theta, x, inputs: dist.Normal(math.sin(theta["phi"] * x), 1.0))


@of_model(errors.ModelError, "inputs = None", "example_inputs")
def model_that_reads_inputs_without_an_example():
    build(transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, inputs["dt"]))


@of_model(errors.ModelError, "transition is not finite for 100% of 64 draws", "guard the expression")
def logarithm_of_a_negative_number():
    build(transition=lambda theta, x, inputs: dist.Normal(jnp.log(-1.0 - x**2), 1.0))


@of_model(errors.ModelError, "A scale below zero", "Bound the prior")
def scale_below_zero():
    build(observation=lambda theta, x, inputs: dist.Normal(x, -jnp.exp(theta["phi"])))


# --- The prior -----------------------------------------------------------------------------------------------------

of_prior = mistakes_about("The prior", MISTAKES)


@of_prior(errors.ModelError, "must be a dict of named distributions", '{"theta": dist.Normal(0.0, 1.0)}')
def prior_without_a_name():
    build(prior=dist.Normal(0.0, 1.0))


@of_prior(errors.ModelError, "got an empty dict", "at least one entry")
def prior_of_nothing():
    build(prior={})


@of_prior(errors.ModelError, 'the prior of "phi" is a float, not a distribution', "for example dist.Normal(0.0, 1.0)")
def prior_that_is_a_number():
    build(prior={"phi": 0.9})


@of_prior(errors.ModelError, "a rv_continuous_frozen, not a distribution", "numpyro distribution")
def prior_from_scipy():
    build(prior={"phi": scipy.stats.norm(0.0, 1.0)})


@of_prior(errors.ModelError, 'the prior of "phi" is improper', "a proper continuous numpyro distribution")
def prior_that_is_improper():
    build(prior={"phi": dist.ImproperUniform(dist.constraints.real, (), ())})


@of_prior(errors.ModelError, 'the prior of "phi" is not finite', "a proper continuous numpyro distribution")
def prior_of_infinite_width():
    build(prior={"phi": dist.Normal(0.0, jnp.inf)})


@of_prior(errors.ModelError, 'the prior of "phi" is discrete', "continuous numpyro distribution")
def prior_on_whole_numbers():
    build(prior={"phi": dist.Poisson(3.0)})


@of_prior(errors.ModelError, "holds one value only", "into the model as a constant")
def prior_for_a_known_parameter():
    build(prior={"phi": dist.Delta(0.9)})


# --- A simulation --------------------------------------------------------------------------------------------------

of_simulation = mistakes_about("A simulation", MISTAKES)


@of_simulation(errors.ModelError, "missing: ['phi'], unknown: ['Phi']", "Give a value for each of these names")
def theta_with_a_misspelt_name(key):
    pf.simulate(key, model(), {"Phi": 0.9}, num_steps=100)


@of_simulation(errors.ModelError, "got 0.9", 'such as {"phi": 0.5}')
def theta_without_a_name(key):
    pf.simulate(key, model(), 0.9, num_steps=100)


@of_simulation(errors.ModelError, "lies outside the support of its prior", "Give a value inside")
def theta_outside_the_support(key):
    pf.simulate(key, model(prior={"phi": dist.Uniform(-1.0, 1.0)}), {"phi": 1.3}, num_steps=100)


@of_simulation(errors.ModelError, "numbers of shape ()", "not draws of it")
def theta_with_many_values(key):
    pf.simulate(key, model(), {"phi": [0.8, 0.9]}, num_steps=100)


@of_simulation(errors.ArgumentError, "got 0", "Make one with jax.random.key(0)")
def seed_in_place_of_a_key():
    pf.simulate(0, model(), {"phi": 0.9}, num_steps=100)


@of_simulation(errors.DataError, "same length as num_steps, 100; got {dt: float32[99]}", "Give one dict of arrays")
def inputs_for_too_few_steps(key, pair_filter):
    pf.simulate(key, pair_filter.model, {"phi": 0.9}, num_steps=100, inputs={"dt": jnp.ones(99)})


# --- Building a filter ---------------------------------------------------------------------------------------------

of_filters = mistakes_about("Building a filter", MISTAKES)


@of_filters(errors.ArgumentError, "model must be a StateSpaceModel, got 1000", "The model comes first")
def number_of_particles_before_the_model():
    pf.extended_parameter_filter(1000, model())


@of_filters(errors.ModelError, "at least 2, got 1", "for example 1000")
def one_particle():
    pf.liu_west_filter(model(), 1)


@of_filters(errors.ModelError, "whole number of at least 2, got 10.5", "for example 1000")
def half_a_particle():
    pf.storvik_filter(model(), 10.5)


@of_filters(errors.ModelError, "whole number of at least 2, got '100'", "for example 1000")
def number_of_particles_in_quotes():
    pf.extended_parameter_filter(model(), "100")


@of_filters(
    errors.ModelError,
    "PointMass cannot be mixed over ancestors",
    "use mixing=None",
)
def three_ancestors(filter):
    pf.ParticleFilter(filter.model, 100, pf.particles.PointMass(), mixing=pf.particles.AncestorMixing(3))


@of_filters(errors.ArgumentError, "belief must be a Belief, got 'Grid'", "belief=Grid()")
def belief_in_quotes(filter):
    pf.ParticleFilter(filter.model, 100, belief="Grid")


@of_filters(errors.ArgumentError, "got the class Systematic", "brackets and all")
def part_without_brackets(filter):
    pf.sir_filter(filter.model, 100, resampling=pf.resampling.Systematic)


@of_filters(errors.BeliefError, "Conjugate needs a Gaussian transition", "Use Grid(), which takes any density")
def conjugate_belief_for_a_model_that_is_not(pair_filter):
    pf.storvik_filter(pair_filter.model, 100)


@of_filters(errors.BeliefError, "the transition is no Gaussian (Cauchy)", "use TaylorOfLogDensity()")
def series_of_a_mean_that_does_not_exist(pair_filter):
    pf.ParticleFilter(pair_filter.model, 100, pf.particles.TaylorOfMean())


@of_filters(errors.BeliefError, "this model has 5", "use pf.auto_filter(model)")
def chebyshev_for_five_parameters(pair_filter):
    pf.ParticleFilter(pair_filter.model, 100, pf.particles.Grid())

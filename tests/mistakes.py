"""Mistakes that new users make, each with the error it meets: its class, and the words that name cause and cure.

A row is a function whose name says what the mistake is and whose lines are what the user wrote; how rows are run is in
`making_mistakes`. `docs/mistakes.md` shows all of them with the message that is really raised.
"""

from __future__ import annotations

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import scipy.stats
from making_mistakes import Mistake, build, mistakes_about, model

import paramfilter as pf

MISTAKES: list[Mistake] = []

# --- The model -----------------------------------------------------------------------------------------------------

of_model = mistakes_about("The model", MISTAKES)


@of_model(pf.ModelError, "initial must be a function, got a Normal", "initial=lambda theta, inputs:")
def initial_that_is_a_distribution_and_not_a_function():
    model(initial=dist.Normal(0.0, 1.0))


@of_model(pf.ModelError, "yours is transition(theta, x)", "Write transition=lambda theta, x, inputs:")
def transition_with_two_arguments():
    model(transition=lambda theta, x: dist.Normal(theta["phi"] * x, 1.0))


@of_model(pf.ModelError, "called with theta = {phi: float32[]}, x = float32[]", "arguments come in this order")
def transition_with_x_before_theta():
    build(transition=lambda x, theta, inputs: dist.Normal(theta["phi"] * x, 1.0))


@of_model(pf.ModelError, "raised KeyError: 'rho'. It was called with theta = {phi:", "names are spelt as here")
def transition_that_reads_a_parameter_without_a_prior():
    build(transition=lambda theta, x, inputs: dist.Normal(theta["rho"] * x, 1.0))


@of_model(pf.ModelError, "must return a distribution", "for example dist.Normal(mean, sd)")
def transition_that_returns_a_number():
    build(transition=lambda theta, x, inputs: theta["phi"] * x)


@of_model(pf.ModelError, "got the class Normal", "Return a numpyro distribution")
def observation_that_returns_a_class():
    build(observation=lambda theta, x, inputs: dist.Normal)


@of_model(pf.ModelError, "got a rv_continuous_frozen", "Return a numpyro distribution")
def observation_from_scipy():
    build(observation=lambda theta, x, inputs: scipy.stats.norm())


@of_model(pf.ModelError, "initial draws float32[], transition draws float32[2]", "of the same length")
def transition_that_changes_the_shape_of_x():
    build(transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, jnp.ones(2)))


@of_model(pf.ModelError, "initial draws float32[], transition draws {place: float32[]}", "needs a scalar mean")
def transition_that_changes_the_structure_of_x():
    build(transition=lambda theta, x, inputs: {"place": dist.Normal(theta["phi"] * x, 1.0)})


@of_model(pf.ModelError, "traced array", "jnp.where in place of if")
def transition_with_an_if():
    build(transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x if x > 0 else 0.0, 1.0))


@of_model(pf.ModelError, "traced array", "jax.numpy in place of math")
def transition_with_the_sine_of_math():
    build(transition=lambda theta, x, inputs: dist.Normal(math.sin(theta["phi"] * x), 1.0))


@of_model(pf.ModelError, "inputs = None", "example_inputs")
def model_that_reads_inputs_without_an_example():
    build(transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, inputs["dt"]))


@of_model(pf.ModelError, "transition is not finite for 100% of 64 draws", "guard the expression")
def logarithm_of_a_negative_number():
    build(transition=lambda theta, x, inputs: dist.Normal(jnp.log(-1.0 - x**2), 1.0))


@of_model(pf.ModelError, "A scale below zero", "Bound the prior")
def scale_below_zero():
    build(observation=lambda theta, x, inputs: dist.Normal(x, -jnp.exp(theta["phi"])))


# --- The prior -----------------------------------------------------------------------------------------------------

of_prior = mistakes_about("The prior", MISTAKES)


@of_prior(pf.ModelError, "must be a dict of named distributions", '{"theta": dist.Normal(0.0, 1.0)}')
def prior_without_a_name():
    build(prior=dist.Normal(0.0, 1.0))


@of_prior(pf.ModelError, "got an empty dict", "at least one entry")
def prior_of_nothing():
    build(prior={})


@of_prior(pf.ModelError, 'the prior of "phi" is a float, not a distribution', "for example dist.Normal(0.0, 1.0)")
def prior_that_is_a_number():
    build(prior={"phi": 0.9})


@of_prior(pf.ModelError, "a rv_continuous_frozen, not a distribution", "numpyro distribution")
def prior_from_scipy():
    build(prior={"phi": scipy.stats.norm(0.0, 1.0)})


@of_prior(pf.ModelError, 'the prior of "phi" is improper', "a proper continuous numpyro distribution")
def prior_that_is_improper():
    build(prior={"phi": dist.ImproperUniform(dist.constraints.real, (), ())})


@of_prior(pf.ModelError, 'the prior of "phi" is not finite', "a proper continuous numpyro distribution")
def prior_of_infinite_width():
    build(prior={"phi": dist.Normal(0.0, jnp.inf)})


@of_prior(pf.ModelError, 'the prior of "phi" is discrete', "continuous numpyro distribution")
def prior_on_whole_numbers():
    build(prior={"phi": dist.Poisson(3.0)})


@of_prior(pf.ModelError, "holds one value only", "into the model as a constant")
def prior_for_a_known_parameter():
    build(prior={"phi": dist.Delta(0.9)})


# --- A simulation --------------------------------------------------------------------------------------------------

of_simulation = mistakes_about("A simulation", MISTAKES)


@of_simulation(pf.ModelError, "missing: ['phi'], unknown: ['Phi']", "Give a value for each of these names")
def theta_with_a_misspelt_name(key):
    pf.simulate(key, model(), {"Phi": 0.9}, num_steps=100)


@of_simulation(pf.ModelError, "got 0.9", 'such as {"phi": 0.5}')
def theta_without_a_name(key):
    pf.simulate(key, model(), 0.9, num_steps=100)


@of_simulation(pf.ModelError, "lies outside the support of its prior", "Give a value inside")
def theta_outside_the_support(key):
    pf.simulate(key, model(prior={"phi": dist.Uniform(-1.0, 1.0)}), {"phi": 1.3}, num_steps=100)


@of_simulation(pf.ModelError, "numbers of shape ()", "not draws of it")
def theta_with_many_values(key):
    pf.simulate(key, model(), {"phi": [0.8, 0.9]}, num_steps=100)


@of_simulation(pf.ArgumentError, "got 0", "Make one with jax.random.key(0)")
def seed_in_place_of_a_key():
    pf.simulate(0, model(), {"phi": 0.9}, num_steps=100)


@of_simulation(pf.DataError, "same length as num_steps, 100; got {dt: float32[99]}", "Give one dict of arrays")
def inputs_for_too_few_steps(key, pair_filter):
    pf.simulate(key, pair_filter.model, {"phi": 0.9}, num_steps=100, inputs={"dt": jnp.ones(99)})


# --- Building a filter ---------------------------------------------------------------------------------------------

of_filters = mistakes_about("Building a filter", MISTAKES)


@of_filters(pf.ArgumentError, "model must be a StateSpaceModel, got 1000", "The model comes first")
def number_of_particles_before_the_model():
    pf.extended_parameter_filter(1000, model())


@of_filters(pf.ModelError, "at least 2, got 1", "for example 1000")
def one_particle():
    pf.liu_west_filter(model(), 1)


@of_filters(pf.ModelError, "whole number of at least 2, got 10.5", "for example 1000")
def half_a_particle():
    pf.nested_particle_filter(model(), 10.5)


@of_filters(pf.ModelError, "whole number of at least 2, got '100'", "for example 1000")
def number_of_particles_in_quotes():
    pf.extended_parameter_filter(model(), "100")


@of_filters(pf.ModelError, "cannot be shared out among 3 islands", "use 99 particles")
def particles_that_islands_cannot_share(filter):
    pf.ParticleFilter(filter.model, 100, pf.beliefs.PointMass(), num_islands=3)


@of_filters(pf.ModelError, "num_ancestors must be 1 (the path) or 2, got 3", "Leave it out")
def three_ancestors(filter):
    pf.ParticleFilter(filter.model, 100, pf.beliefs.PointMass(), num_ancestors=3)


@of_filters(pf.ArgumentError, "belief must be a Belief, got 'Chebyshev'", "belief=Chebyshev()")
def belief_in_quotes(filter):
    pf.ParticleFilter(filter.model, 100, belief="Chebyshev")


@of_filters(pf.ArgumentError, "got the class Systematic", "brackets and all")
def part_without_brackets(filter):
    pf.sir_filter(filter.model, 100, resampling=pf.resampling.Systematic)


@of_filters(pf.BeliefError, "Conjugate needs a Gaussian transition", "else TaylorOfLogDensity()")
def conjugate_belief_for_a_model_that_is_not(pair_filter):
    pf.storvik_filter(pair_filter.model, 100)


@of_filters(pf.BeliefError, "needs a Gaussian transition, got Cauchy", "use TaylorOfLogDensity()")
def series_of_a_mean_that_does_not_exist(pair_filter):
    pf.ParticleFilter(pair_filter.model, 100, pf.beliefs.TaylorOfMean())


@of_filters(pf.BeliefError, "this model has 5", "use CrossInterpolation()")
def chebyshev_for_five_parameters(pair_filter):
    pf.ParticleFilter(pair_filter.model, 100, pf.beliefs.Chebyshev())


# --- Data ----------------------------------------------------------------------------------------------------------

of_data = mistakes_about("Data", MISTAKES)


@of_data(pf.DataError, "y must have shape (time, 2); got (2, 5)", "Transpose it")
def transposed_data(pair_filter, pair_state):
    pf.run(pair_filter, pair_state, np.zeros((2, 5)))


@of_data(pf.DataError, "y must have shape (time); got (5, 1)", "y[..., 0]")
def column_in_place_of_a_series(filter, state, ys):
    pf.run(filter, state, ys[:, None])


@of_data(pf.DataError, "y must have shape (); got (5,)", "run(filter, state, ys) takes many")
def whole_series_in_one_step(filter, state, ys):
    filter.step(state, ys)


@of_data(pf.DataError, "y must have shape (time); got ()", "use filter.step(state, y)")
def one_number_for_run(filter, state):
    pf.run(filter, state, 0.3)


@of_data(pf.DataError, "a list cannot become one", "in rows of one length")
def rows_of_different_lengths(pair_filter, pair_state):
    pf.run(pair_filter, pair_state, [[0.1, 0.2], [0.3]])


@of_data(pf.DataError, "of dtype <U4", "np.asarray(y, float)")
def numbers_that_are_texts(filter, state):
    pf.run(filter, state, np.array(["0.1", "-0.2"]))


@of_data(pf.DataError, "could not convert string to float: 'n/a'", "with NaN where one is missing")
def table_column_with_a_text(filter, state):
    pf.run(filter, state, np.array([0.1, "n/a", 0.3], dtype=object))


@of_data(pf.DataError, "of dtype datetime64[D]", "dates belong in inputs")
def dates_in_place_of_values(filter, state):
    pf.run(filter, state, np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"))


@of_data(pf.DataError, "got None", "NaN, not None")
def none_for_a_missing_value(filter, state):
    filter.step(state, None)


@of_data(pf.DataError, "ys holds no observation", "Give one at least")
def no_data(filter, state):
    pf.run(filter, state, [])


@of_data(pf.DataError, "same length as ys, 5; got {dt: float32[4]}", "Give one dict of arrays")
def data_longer_than_inputs(pair_filter, pair_state):
    pf.run(pair_filter, pair_state, np.zeros((5, 2)), inputs={"dt": np.ones(4)})


@of_data(pf.DataError, "got [{dt: float32[]}", "not a list of dicts")
def inputs_as_a_list_of_dicts(pair_filter, pair_state):
    pf.run(pair_filter, pair_state, np.zeros((3, 2)), inputs=[{"dt": 1.0}, {"dt": 0.5}, {"dt": 1.0}])


@of_data(pf.DataError, "inputs must hold numbers only", "Turn dates into numbers")
def dates_in_inputs(pair_filter, pair_state):
    pf.run(pair_filter, pair_state, [[0.3, 0.1]], inputs={"dt": np.array(["2024-01-01"], dtype="datetime64[D]")})


@of_data(pf.ModelError, "inputs = None", "inputs=... to init, step, run")
def step_without_the_inputs_it_needs(pair_filter, pair_state):
    pair_filter.step(pair_state, [0.3, 0.1])


@of_data(pf.ModelError, "raised KeyError: 'dt'", "names are spelt as here")
def inputs_with_a_misspelt_name(pair_filter, pair_state):
    pair_filter.step(pair_state, [0.3, 0.1], {"dT": 1.0})


# --- Running -------------------------------------------------------------------------------------------------------

of_running = mistakes_about("Running a filter", MISTAKES)


@of_running(pf.ArgumentError, "got an array of shape (2,)", "use jax.random.key(0)")
def key_of_the_old_kind(filter):
    filter.init(jax.random.PRNGKey(0))


@of_running(pf.ArgumentError, "state must be a FilterState, got None", "Begin with state = filter.init")
def run_without_a_first_state(filter, ys):
    pf.run(filter, None, ys)


@of_running(pf.ArgumentError, "state must be a FilterState, got an array of shape (5,)", "run(filter, state, ys)")
def data_before_the_state(filter, state, ys):
    pf.run(filter, ys, state)


@of_running(pf.ArgumentError, "filter must be a ParticleFilter, got a StateSpaceModel", "run(filter, state, ys)")
def model_in_place_of_the_filter(filter, state, ys):
    pf.run(filter.model, state, ys)


@of_running(pf.ArgumentError, "got a tuple", "step and run return a pair")
def pair_that_was_not_taken_apart(filter, state):
    new = (state, None)  # as in new = pf.run(filter, state, ys)
    filter.step(new, 0.3)


@of_running(pf.DataError, "another filter; model: 'pair' there, 'model' here", "or the filter it came from")
def state_of_another_filter(filter, pair_state):
    filter.step(pair_state, 0.3)


@of_running(pf.ArgumentError, "whole number of at least 1, got 0", "predict(key, filter, state, num_steps)")
def look_no_steps_ahead(key, filter, state):
    pf.predict(key, filter, state, 0)


@of_running(pf.ModelError, "inputs = None", "simulate or predict")
def look_ahead_without_inputs(key, pair_filter, pair_state):
    pf.predict(key, pair_filter, pair_state, 3)


@of_running(pf.ArgumentError, "history must be a History, got None", "diagnose(state, history)")
def diagnosis_without_a_history(state):
    pf.diagnose(state, None)


@of_running(pf.DataError, "times must be a list of numbers, got 100", "Write [100]")
def calibration_at_one_number(key, filter):
    pf.calibrate(key, filter, 100, 10)


@of_running(pf.ArgumentError, "no warning 'W99'", "W01 to W12")
def code_that_does_not_exist():
    pf.explain("W99")


@of_running(pf.ArgumentError, "got a FilterState", "explain(state.outcome)")
def explanation_of_a_state(state):
    pf.explain(state)


# --- The posterior -------------------------------------------------------------------------------------------------

of_posterior = mistakes_about("The posterior", MISTAKES)


@of_posterior(pf.DataError, "belongs to another filter", "or the filter it came from")
def posterior_of_a_foreign_state(filter, pair_state):
    filter.posterior(pair_state)


@of_posterior(pf.ModelError, "missing: ['phi'], unknown: []", "Give a value for each of these names")
def density_at_a_theta_with_a_missing_name(filter, state):
    filter.posterior(state).log_prob({})


@of_posterior(pf.ModelError, "missing: [], unknown: ['sigma']", "and for no other")
def density_at_a_theta_with_an_unknown_name(filter, state):
    filter.posterior(state).log_prob({"phi": 0.9, "sigma": 1.0})


@of_posterior(pf.BeliefError, "PointMass belief has no density", "Use posterior.sample")
def density_of_beliefs_that_are_points(filter, state):
    filter.posterior(state).log_prob({"phi": 0.9})


@of_posterior(pf.ArgumentError, "between 0 and 1, got [5, 95]", "Write 0.95 for the 95 % quantile")
def quantiles_in_per_cent(filter, state):
    filter.posterior(state).quantile([5, 95])


@of_posterior(pf.ArgumentError, "key must be one typed random key, got 1000", "posterior.sample(key, num_draws)")
def draws_without_a_key(filter, state):
    filter.posterior(state).sample(1000, 0)


# --- Checkpoints ---------------------------------------------------------------------------------------------------

of_checkpoints = mistakes_about("Checkpoints", MISTAKES)


@of_checkpoints(pf.CheckpointError, "there is no checkpoint at", "Check the path")
def checkpoint_that_is_not_there(folder, filter):
    pf.restore(folder / "rnu.safetensors", filter)


@of_checkpoints(pf.CheckpointError, "is not a readable checkpoint", "a file that save has written")
def text_in_place_of_a_checkpoint(folder, filter):
    (folder / "notes.txt").write_text("phi is about 0.9")
    pf.restore(folder / "notes.txt", filter)


@of_checkpoints(pf.CheckpointError, "is not a readable checkpoint", "go back to an earlier one")
def checkpoint_that_was_cut_short(path, filter):
    path.write_bytes(path.read_bytes()[:-100])
    pf.restore(path, filter)


@of_checkpoints(pf.CheckpointError, "its checksum does not match", "Go back to an earlier checkpoint")
def checkpoint_with_a_changed_byte(path, filter):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    pf.restore(path, filter)


@of_checkpoints(pf.CheckpointError, "model: 'model' there, 'pair' here", "Build the filter as it was")
def checkpoint_of_another_model(path, pair_filter):
    pf.restore(path, pair_filter)


@of_checkpoints(pf.CheckpointError, "particles: 16 there, 32 here", "Build the filter as it was")
def checkpoint_of_another_number_of_particles(path, filter):
    pf.restore(path, pf.sir_filter(filter.model, 32))


@of_checkpoints(pf.CheckpointError, "holds the state of a fleet", "read it with Fleet.restore")
def checkpoint_of_a_fleet(folder, filter, fleet, fleet_state):
    fleet.save(folder / "fleet.safetensors", fleet_state)
    pf.restore(folder / "fleet.safetensors", filter)


@of_checkpoints(pf.ArgumentError, "state must be a FilterState, got a PosixPath", "save(path, state)")
def state_before_the_path(path, state):
    pf.save(state, path)


@of_checkpoints(pf.CheckpointError, "there is no directory", "make it first")
def save_to_a_folder_that_is_not_there(folder, state):
    pf.save(folder / "runs" / "monday.safetensors", state)


# --- Fleets --------------------------------------------------------------------------------------------------------

of_fleets = mistakes_about("Fleets", MISTAKES)


@of_fleets(pf.ArgumentError, "filter must be a ParticleFilter, got a StateSpaceModel", "Fleet(filter)")
def fleet_of_a_model(filter):
    pf.Fleet(filter.model)


@of_fleets(pf.DataError, "'oslo' is named twice", "Name each once")
def one_series_twice(key, fleet):
    fleet.init(key, ["oslo", "lima", "oslo"])


@of_fleets(pf.DataError, "got 'lima'", "['lima']")
def one_text_for_ids(fleet, fleet_state):
    fleet.update(fleet_state, "lima", [0.3])


@of_fleets(pf.DataError, "no series ['kyiv']", "use fleet.add")
def series_that_the_fleet_does_not_know(fleet, fleet_state):
    fleet.update(fleet_state, ["kyiv"], [0.3])


@of_fleets(pf.DataError, "each of 2 series; got [3]", "Use NaN for a series without one")
def data_for_more_series_than_there_are(fleet, fleet_state):
    fleet.step(fleet_state, [0.1, 0.2, 0.3])


@of_fleets(pf.DataError, "each of 2 series whether it has an observation; got shape (1,)", "Use fleet.update")
def mask_of_another_length(fleet, fleet_state):
    fleet.step(fleet_state, [0.1, 0.2], mask=[True])


@of_fleets(pf.ArgumentError, "state must be a FleetState, got a FilterState", "fleet.init(jax.random.key(0), ids)")
def state_of_a_filter_for_a_fleet(fleet, state):
    fleet.step(state, [0.1, 0.2])


if __name__ == "__main__":
    print(json.dumps({mistake.name: mistake.raised() for mistake in MISTAKES}))

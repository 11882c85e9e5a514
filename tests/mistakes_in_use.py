"""Mistakes in what is done with a filter: its data, its runs and posteriors, checkpoints and fleets."""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
from making_mistakes import Mistake, mistakes_about

import paramfilter as pf
from paramfilter import errors

MISTAKES: list[Mistake] = []

# --- Data ----------------------------------------------------------------------------------------------------------

of_data = mistakes_about("Data", MISTAKES)


@of_data(errors.DataError, "y must have shape (time, 2); got (2, 5)", "Transpose it")
def transposed_data(pair_filter, pair_state):
    pf.run(pair_filter, pair_state, np.zeros((2, 5)))


@of_data(errors.DataError, "y must have shape (time); got (5, 1)", "y[..., 0]")
def column_in_place_of_a_series(filter, state, ys):
    pf.run(filter, state, ys[:, None])


@of_data(errors.DataError, "y must have shape (); got (5,)", "run(filter, state, ys) takes many")
def whole_series_in_one_step(filter, state, ys):
    filter.step(state, ys)


@of_data(errors.DataError, "y must have shape (time); got ()", "use filter.step(state, y)")
def one_number_for_run(filter, state):
    pf.run(filter, state, 0.3)


@of_data(errors.DataError, "a list cannot become one", "in rows of one length")
def rows_of_different_lengths(pair_filter, pair_state):
    pf.run(pair_filter, pair_state, [[0.1, 0.2], [0.3]])


@of_data(errors.DataError, "of dtype <U4; row 0 is '0.1'", "Convert it to a number")
def numbers_that_are_texts(filter, state):
    pf.run(filter, state, np.array(["0.1", "-0.2"]))


@of_data(errors.DataError, "row 1 is 'n/a'", "leave missing values empty")
def table_column_with_a_text(filter, state):
    pf.run(filter, state, np.array([0.1, "n/a", 0.3], dtype=object))


@of_data(errors.DataError, "a DataFrame cannot become one", "pf.observations_from_table(table")
def table_with_dates_in_place_of_numbers(filter, state):
    pf.run(filter, state, pd.DataFrame({"day": ["2024-01-01", "2024-01-02"], "level": [0.1, 0.3]}))


@of_data(errors.DataError, "got a str", "Read the file first")
def path_in_place_of_a_table():
    pf.observations_from_table("level.csv", y="level")


@of_data(errors.DataError, "of dtype datetime64[D]", "dates belong in time or inputs")
def dates_in_place_of_values(filter, state):
    pf.run(filter, state, np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"))


@of_data(errors.DataError, "got None", "NaN, not None")
def none_for_a_missing_value(filter, state):
    filter.step(state, None)


@of_data(errors.DataError, "ys holds no observation", "Pass at least one")
def no_data(filter, state):
    pf.run(filter, state, [])


@of_data(errors.DataError, "same length as ys, 5; got {dt: float32[4]}", "Give one dict of arrays")
def data_longer_than_inputs(pair_filter, pair_state):
    pf.run(pair_filter, pair_state, np.zeros((5, 2)), inputs={"dt": np.ones(4)})


@of_data(errors.DataError, "got [{dt: float32[]}", "not a list of dicts")
def inputs_as_a_list_of_dicts(pair_filter, pair_state):
    pf.run(pair_filter, pair_state, np.zeros((3, 2)), inputs=[{"dt": 1.0}, {"dt": 0.5}, {"dt": 1.0}])


@of_data(errors.DataError, "inputs must hold numbers only", "Turn dates into numbers")
def dates_in_inputs(pair_filter, pair_state):
    pf.run(pair_filter, pair_state, [[0.3, 0.1]], inputs={"dt": np.array(["2024-01-01"], dtype="datetime64[D]")})


@of_data(errors.ModelError, "inputs = None", "inputs=... to init, step, run")
def step_without_the_inputs_it_needs(pair_filter, pair_state):
    pair_filter.step(pair_state, [0.3, 0.1])


@of_data(errors.DataError, "no input 'dT'", "Its inputs are dt")
def inputs_with_a_misspelt_name(pair_filter, pair_state):
    pair_filter.step(pair_state, [0.3, 0.1], {"dT": 1.0})


# --- Running -------------------------------------------------------------------------------------------------------

of_running = mistakes_about("Running a filter", MISTAKES)


@of_running(errors.ArgumentError, "got an array of shape (2,)", "use jax.random.key(0)")
def key_of_the_old_kind(filter):
    filter.init(jax.random.PRNGKey(0))


@of_running(errors.ArgumentError, "state must be a ParticleState, got None", "Begin with state = filter.init")
def run_without_a_first_state(filter, ys):
    pf.run(filter, None, ys)


@of_running(errors.ArgumentError, "state must be a ParticleState, got an array of shape (5,)", "run(filter, state, ys)")
def data_before_the_state(filter, state, ys):
    pf.run(filter, ys, state)


@of_running(errors.ArgumentError, "filter must be a Filter, got a StateSpaceModel", "run(filter, state, ys)")
def model_in_place_of_the_filter(filter, state, ys):
    pf.run(filter.model, state, ys)


@of_running(errors.ArgumentError, "got a tuple", "step and run return a pair")
def pair_that_was_not_taken_apart(filter, state):
    new = (state, None)  # as in new = pf.run(filter, state, ys)
    filter.step(new, 0.3)


@of_running(errors.DataError, "another filter; model: 'pair' there, 'model' here", "or the filter it came from")
def state_of_another_filter(filter, pair_state):
    filter.step(pair_state, 0.3)


@of_running(errors.ArgumentError, "whole number of at least 1, got 0", "predict(key, filter, state, num_steps)")
def look_no_steps_ahead(key, filter, state):
    pf.predict(key, filter, state, 0)


@of_running(errors.ModelError, "inputs = None", "simulate or predict")
def look_ahead_without_inputs(key, pair_filter, pair_state):
    pf.predict(key, pair_filter, pair_state, 3)


@of_running(errors.ArgumentError, "history must be a History, got None", "diagnose(state, history)")
def diagnosis_without_a_history(state):
    pf.diagnose(state, None)


@of_running(errors.DataError, "times must be a list of numbers, got 100", "Write [100]")
def calibration_at_one_number(key, filter):
    pf.calibrate(key, filter, 100, 10)


@of_running(errors.ArgumentError, "no warning 'W99'", "W01 to W14")
def code_that_does_not_exist():
    pf.explain("W99")


@of_running(errors.ArgumentError, "got a ParticleState", "explain(state.outcome)")
def explanation_of_a_state(state):
    pf.explain(state)


# --- The posterior -------------------------------------------------------------------------------------------------

of_posterior = mistakes_about("The posterior", MISTAKES)


@of_posterior(errors.DataError, "belongs to another filter", "or the filter it came from")
def posterior_of_a_foreign_state(filter, pair_state):
    filter.posterior(pair_state)


@of_posterior(errors.ModelError, "missing: ['phi'], unknown: []", "Give a value for each of these names")
def density_at_a_theta_with_a_missing_name(filter, state):
    filter.posterior(state).log_prob({})


@of_posterior(errors.ModelError, "missing: [], unknown: ['sigma']", "and for no other")
def density_at_a_theta_with_an_unknown_name(filter, state):
    filter.posterior(state).log_prob({"phi": 0.9, "sigma": 1.0})


@of_posterior(errors.ArgumentError, "between 0 and 1, got [5, 95]", "Write 0.95 for the 95 % quantile")
def quantiles_in_per_cent(filter, state):
    filter.posterior(state).quantile([5, 95])


@of_posterior(errors.ArgumentError, "key must be one typed random key, got 1000", "posterior.sample(key, num_draws)")
def draws_without_a_key(filter, state):
    filter.posterior(state).sample(1000, 0)


# --- Checkpoints ---------------------------------------------------------------------------------------------------

of_checkpoints = mistakes_about("Checkpoints", MISTAKES)


@of_checkpoints(errors.CheckpointError, "there is no checkpoint at", "Check the path")
def checkpoint_that_is_not_there(folder, filter):
    pf.restore(folder / "rnu.safetensors", filter)


@of_checkpoints(errors.CheckpointError, "is not a readable checkpoint", "a file that save has written")
def text_in_place_of_a_checkpoint(folder, filter):
    (folder / "notes.txt").write_text("phi is about 0.9")
    pf.restore(folder / "notes.txt", filter)


@of_checkpoints(errors.CheckpointError, "is not a readable checkpoint", "earlier checkpoint")
def checkpoint_that_was_cut_short(path, filter):
    path.write_bytes(path.read_bytes()[:-100])
    pf.restore(path, filter)


@of_checkpoints(errors.CheckpointError, "its checksum does not match", "Use an earlier checkpoint")
def checkpoint_with_a_changed_byte(path, filter):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    pf.restore(path, filter)


@of_checkpoints(errors.CheckpointError, "model: 'model' there, 'pair' here", "Build the filter as it was")
def checkpoint_of_another_model(path, pair_filter):
    pf.restore(path, pair_filter)


@of_checkpoints(errors.CheckpointError, "particles: 16 there, 32 here", "Build the filter as it was")
def checkpoint_of_another_number_of_particles(path, filter):
    pf.restore(path, pf.sir_filter(filter.model, 32))


@of_checkpoints(errors.CheckpointError, "holds the state of a fleet", "read it with Fleet.restore")
def checkpoint_of_a_fleet(folder, filter, fleet, fleet_state):
    fleet.save(folder / "fleet.safetensors", fleet_state)
    pf.restore(folder / "fleet.safetensors", filter)


@of_checkpoints(errors.ArgumentError, "state must be the state of a filter, got a PosixPath", "save(path, state)")
def state_before_the_path(path, state):
    pf.save(state, path)


@of_checkpoints(errors.CheckpointError, "there is no directory", "create it first")
def save_to_a_folder_that_is_not_there(folder, state):
    pf.save(folder / "runs" / "monday.safetensors", state)


# --- Fleets --------------------------------------------------------------------------------------------------------

of_fleets = mistakes_about("Fleets", MISTAKES)


@of_fleets(errors.ArgumentError, "filter must be a Filter, got a StateSpaceModel", "Fleet(filter)")
def fleet_of_a_model(filter):
    pf.Fleet(filter.model)


@of_fleets(errors.DataError, "'oslo' is named twice", "Name each once")
def one_series_twice(key, fleet):
    fleet.init(key, ["oslo", "lima", "oslo"])


@of_fleets(errors.DataError, "got 'lima'", "['lima']")
def one_text_for_ids(fleet, fleet_state):
    fleet.update(fleet_state, "lima", [0.3])


@of_fleets(errors.DataError, "no series ['kyiv']", "use fleet.add")
def series_that_the_fleet_does_not_know(fleet, fleet_state):
    fleet.update(fleet_state, ["kyiv"], [0.3])


@of_fleets(errors.DataError, "each of 2 series; got [3]", "Use NaN for a series without one")
def data_for_more_series_than_there_are(fleet, fleet_state):
    fleet.step(fleet_state, [0.1, 0.2, 0.3])


@of_fleets(errors.DataError, "each of 2 series, True if it has an observation; got shape (1,)", "Use fleet.update")
def mask_of_another_length(fleet, fleet_state):
    fleet.step(fleet_state, [0.1, 0.2], mask=[True])


@of_fleets(
    errors.ArgumentError, "state must be a FleetState, got a ParticleState", "fleet.init(jax.random.key(0), ids)"
)
def state_of_a_filter_for_a_fleet(fleet, state):
    fleet.step(state, [0.1, 0.2])

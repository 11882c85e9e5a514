"""A run as a tree of labelled arrays: nothing is lost on the way, on disk or in ArviZ."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from results_of_a_run import NUM_STEPS, node_run, node_tree, run, tree

import paramfilter as pf
from paramfilter.data import Observations
from paramfilter.diagnostics import examine, record_of
from paramfilter.numerics.quantiles import LEVELS, NUM_BINS, REACH


def test_moments_and_stats_are_those_of_the_history():
    _, history, data, _ = run()
    filtered = tree()["filtered"]
    assert np.array_equal(filtered["phi"].sel(moment="mean"), history.theta.mean["phi"])
    assert np.array_equal(filtered["q"].sel(moment="sd"), history.theta.sd["q"])
    assert np.array_equal(tree()["filtered_state"]["x"].sel(moment="mean"), history.x.mean)
    assert np.array_equal(tree()["filter_stats"]["ess"], history.info.ess)
    assert np.array_equal(tree()["observed_data"]["y"], data.ys, equal_nan=True)
    assert np.array_equal(filtered["time"], data.times)


def test_draws_are_those_of_the_posterior():
    state, history, _, _ = run()
    posterior, exact = tree()["posterior"], history.filter.posterior(state)
    assert (posterior.sizes["draw"], posterior.sizes["phi_dim_0"]) == (200, 2)
    q = posterior["q"].to_numpy()
    # 6 standard errors: a false alarm in 1e9.
    assert abs(q.mean() - exact.mean()["q"]) < 6 * exact.sd()["q"] / q.size**0.5


def test_particles_carry_their_weights():
    state, _, _, _ = run()
    particles = tree()["particles"]
    weights = np.exp(particles["log_weight"])
    assert np.isclose(weights.sum(), 1.0, atol=1e-5)
    assert np.array_equal(np.ravel(particles["log_weight"]), state.log_weights)


def test_steps_are_counted_where_no_times_are_given():
    state, history, data, _ = run()
    steps = pf.to_datatree(state, history, data.ys, num_draws=2)["filtered"]["time"]
    assert np.array_equal(steps, np.arange(1, NUM_STEPS + 1))


def test_a_saved_result_comes_back_the_same(tmp_path):
    pf.results.save_result(tmp_path / "run.nc", tree())
    assert pf.results.load_result(tmp_path / "run.nc").identical(tree())


def test_what_is_no_result_is_refused_by_name(tmp_path):
    (tmp_path / "torn.nc").write_bytes(b"not a file of that kind")
    with pytest.raises(pf.errors.DataError, match=r"torn\.nc cannot be read"):
        pf.results.load_result(tmp_path / "torn.nc")
    with pytest.raises(pf.errors.DataError, match="no result at"):
        pf.results.load_result(tmp_path / "none.nc")
    with pytest.raises(pf.errors.DataError, match=r"ends in \.nc"):
        pf.results.load_result(tmp_path / "result.csv")


def test_arviz_reads_it():
    arviz = pytest.importorskip("arviz")
    summary = arviz.summary(tree())
    assert list(summary.index) == ["phi[0]", "phi[1]", "q"]


def test_a_diagnosis_of_the_saved_result_is_that_of_the_run():
    state, history, _, _ = run()
    assert str(examine(record_of(tree()))) == str(pf.diagnose(state, history))


def test_tables_have_a_row_for_each_observation(tmp_path):
    _, history, data, _ = run()
    pandas_table, polars_table = pf.results.to_pandas(tree()), pf.results.to_polars(tree())
    pf.results.to_parquet(tree(), tmp_path / "run.parquet")
    columns = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "run.parquet")
    assert list(pandas_table.index.to_numpy()) == list(data.times)
    assert np.array_equal(pandas_table["q_mean"], history.theta.mean["q"])
    assert np.array_equal(polars_table["phi[1]_sd"], history.theta.sd["phi"][:, 1])
    assert columns.column_names == polars_table.columns
    assert (pandas_table["q_q05"] > 0).all()


def _mass_below(weights, values, found):
    """Return the mass below each quantile, less and more a bin of the histogram that it comes from."""
    weights, values = np.asarray(weights, np.float64), np.asarray(values, np.float64)
    sd = np.sqrt(weights @ (values - weights @ values) ** 2)
    width = 2 * REACH * sd / NUM_BINS
    return [[np.sum(weights[values <= one + side * width]) for one in found] for side in (-1, 1)]


ROUNDING = 1e-6
"""Weights are in single precision."""


def test_quantiles_of_the_history_are_those_of_the_weighted_particles():
    state, history, _, _ = run()
    found = history.theta.quantiles["q"][-1]
    # The quantiles of q come from its coordinate, which is its logarithm.
    below, above = _mass_below(np.exp(state.log_weights), state.z[:, 2], np.log(found))
    assert np.all(np.array(below) <= np.array(LEVELS) + ROUNDING)
    assert np.all(np.array(above) >= np.array(LEVELS) - ROUNDING)
    assert np.all(np.diff(history.theta.quantiles["phi"], axis=1) >= 0)
    assert history.theta.quantiles["phi"].shape == (NUM_STEPS, len(LEVELS), 2)


def test_quantiles_of_a_node_filter_are_those_of_the_weighted_nodes():
    state, history, _, _ = node_run()
    nodes = state.nodes
    weights = np.exp(nodes.log_weights - nodes.log_total)
    for component in (0, 1):
        values = np.asarray(nodes.theta["phi"][:, component])
        order = np.argsort(values)
        middles = np.cumsum(weights[order]) - weights[order] / 2  # half of a weight lies on either side of its node
        right = np.interp(LEVELS, middles, values[order])
        np.testing.assert_allclose(history.theta.quantiles["phi"][-1, :, component], right, atol=1e-4 * np.ptp(values))


def test_filtered_mean_and_sd_of_the_state_are_those_of_the_history():
    for state, history, _, _ in (run(), node_run()):
        filter = history.filter
        assert np.allclose(filter.posterior(state).state_mean(), history.x.mean[-1], rtol=1e-4, atol=1e-5)
        assert np.allclose(filter.posterior(state).state_sd(), history.x.sd[-1], rtol=1e-3, atol=1e-5)


def test_forecasts_go_on_with_the_dates_and_columns_of_the_data():
    coming, one_step = node_tree()["predictions"], node_tree()["one_step"]
    assert str(coming["time"].to_numpy()[0])[:10] == "2026-03-02"  # 60 days after the first of January
    assert node_tree()["observed_data"]["y"].attrs["columns"] == coming["y"].attrs["columns"] == ["north", "south"]
    assert one_step["y"].shape == (5, NUM_STEPS, 2)
    observed = node_tree()["observed_data"]["y"].to_numpy()
    is_seen = ~np.isnan(observed)
    inside = (one_step["y"].sel(moment="q05") <= observed) & (observed <= one_step["y"].sel(moment="q95"))
    # 100 observations, 90 % of them expected inside, 5 standard errors of 3 %.
    assert 0.75 < np.mean(inside.to_numpy()[is_seen]) <= 1.0


def test_histories_join_also_across_filters_that_are_the_same():
    _, history, data, _ = run()
    filter, push = history.filter, jnp.float32(0.0)
    twin = pf.ParticleFilter(filter.model, 400, pf.particles.ShrinkingKernel())
    begun = filter.init(jax.random.key(1), push)
    middle, first = pf.run(filter, begun, data.ys[:30], data.inputs[:30])
    last, second = pf.run(twin, middle, data.ys[30:], data.inputs[30:])
    joined = pf.results.concat_histories(first, second)
    assert len(joined) == NUM_STEPS
    assert np.array_equal(joined.theta.mean["q"], history.theta.mean["q"])
    pf.to_datatree(last, joined, data, num_draws=2)


def test_recording_step_by_step_gives_the_history_of_a_run():
    _, history, data, _ = run()
    filter, rows = history.filter, []
    state = filter.init(jax.random.key(1), jnp.float32(0.0))
    for y, push in zip(data.ys[:5], data.inputs[:5], strict=True):
        state, info = filter.step(state, y, push)
        rows.append(pf.results.history_row(filter, state, info))
    assert np.allclose(pf.results.concat_histories(*rows).theta.sd["phi"], history.theta.sd["phi"][:5], rtol=1e-5)


def test_a_state_of_another_filter_is_refused():
    _, history, _, _ = run()
    other = pf.sir_filter(history.filter.model, 20)
    with pytest.raises(pf.errors.DataError, match="belongs to another filter"):
        pf.to_datatree(other.init(jax.random.key(0), jnp.float32(0.0)), history)


TABLE = {"day": ["mon", "tue", "wed"], "a": [0.1, None, 0.3], "b": [1, 2, 3], "rain": [0.0, 2.0, 1.0]}


@pytest.mark.parametrize("library", ["dict", "pandas", "polars", "pyarrow"])
def test_tables_of_all_kinds_give_the_same_numbers(library):
    makers = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}
    table = TABLE if library == "dict" else getattr(pytest.importorskip(library), makers[library])(TABLE)
    data = pf.observations_from_table(table, y=["a", "b"], inputs={"rain": "rain"}, time="day")
    assert np.array_equal(data.ys, [[0.1, 1], [np.nan, 2], [0.3, 3]], equal_nan=True)
    assert np.array_equal(data.inputs["rain"], [0.0, 2.0, 1.0])
    assert list(data.times) == ["mon", "tue", "wed"]


def test_the_index_of_a_series_is_kept():
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2026-01-01", periods=3)
    data = pf.observations_from_table(pandas.Series([1.0, 2.0, 3.0], index=days, name="level"))
    assert list(data.times) == list(days.to_numpy())
    assert pf.observations_from_table(pandas.Series([1.0, 2.0])).times is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": "level"}, 'no column "level". Its columns are'),
        ({"y": "day"}, "of dtype <U3; row 0 is 'mon'"),
        ({}, "column of the observations is ambiguous"),
    ],
)
def test_a_wrong_column_is_named(columns, message):
    with pytest.raises(pf.errors.DataError, match=message):
        pf.observations_from_table(TABLE, **columns)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["2026-01-31", "2026-02-01"], "M"),
        (["2026-01-31 12:00", "2026-01-31T13:00:30.5"], "M"),
        (["2026-01-31", "tomorrow"], "U"),
        (["2026-13-31", "2026-02-01"], "U"),  # there is no such month
        ([2026, 2027], "i"),
    ],
)
def test_texts_that_are_all_dates_become_dates(texts, kind):
    times = pf.observations_from_table({"y": [1.0, 2.0], "when": texts}, y="y", time="when").times
    assert times is not None and times.dtype.kind == kind


def test_parameters_keep_the_order_of_the_prior(tmp_path):
    model = pf.StateSpaceModel(
        prior={"slope": dist.Normal(0.0, 1.0), "level": dist.Normal(0.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(theta["level"], 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["slope"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, 1.0),
    )
    filter = pf.sir_filter(model, 8)
    state, history = pf.run(filter, filter.init(jax.random.key(0)), np.zeros(3))
    found = filter.posterior(state)
    assert [*found.mean()] == [*found.sd()] == [*found.quantile(0.5)] == ["slope", "level"]
    pf.results.save_result(tmp_path / "run.nc", pf.to_datatree(state, history))
    kept = pf.results.load_result(tmp_path / "run.nc")
    assert [*kept["posterior"].data_vars] == [*kept["filtered"].data_vars] == ["slope", "level"]


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-06"], "from 2026-01-03.* 2 rows seem to be missing"),
        (["2026-01-01 00:00", "2026-01-01 00:10", "2026-01-01 00:17", "2026-01-01 00:40"], "Pass the time since"),
        (["2026-01-01", "2026-01-02", "2026-01-02"], "rows 1 and 2 have the same time .2026-01-02.. Keep one row"),
    ],
)
def test_times_that_are_not_even_are_reported_with_what_to_do(days, text):
    table = {"y": np.ones(len(days)), "day": days, "dt": np.ones(len(days))}
    with pytest.warns(UserWarning, match=text):
        pf.observations_from_table(table, y="y", time="day")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if "same time" not in text:  # the model may know how much time has passed
            pf.observations_from_table(table, y="y", time="day", inputs={"dt": "dt"})


@pytest.mark.parametrize(
    "days", [["2026-01-01", "2026-02-01", "2026-03-01"], ["2024-01-01", "2025-01-01", "2026-01-01"]]
)
def test_months_and_years_are_even(days):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pf.observations_from_table({"y": np.ones(3), "day": days}, y="y", time="day")


def test_what_a_run_is_made_of_has_one_readable_line_each():
    state, history, data, ahead = node_run()
    model, posterior = history.filter.model, history.filter.posterior(state)
    assert repr(data) == "Observations(60 rows of north, south, 10 missing, with inputs, 2026-01-01 to 2026-03-01)"
    assert repr(Observations(np.zeros((3, 2)))) == "Observations(3 rows of y[2], 0 missing)"
    assert repr(model) == "StateSpaceModel(two levels: parameters phi[2], q; with inputs)"
    assert repr(state) == "NodeState(two levels after 60 steps, 64 nodes, Kalman)"
    assert repr(posterior) == "NodePosterior(phi[2], q; two levels after 60 steps, 64 nodes, Kalman)"
    assert repr(history) == "History(60 steps of two levels: phi[2], q)"
    assert repr(ahead) == "Forecast(64 draws of 8 steps)"
    particles, _, _, _ = run()
    assert repr(particles) == "ParticleState(two levels after 60 steps, 400 particles, ShrinkingKernel(0.98))"
    assert "array" not in repr(jax.eval_shape(lambda one: one, state))

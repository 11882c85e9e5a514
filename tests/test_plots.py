"""Each picture: drawn from a result, a saved one and a dict of both; what it shows is what the result holds."""

import inspect
import io
import time
from dataclasses import replace

import matplotlib

matplotlib.use("Agg")

import jax
import numpy as np
import pytest
from results_of_a_run import TRUTH, collapsed_tree, node_run, node_tree

import paramfilter as pf
from paramfilter.calibration import Calibration
from paramfilter.plots.ranks import POINTS, band_of
from paramfilter.plots.style import MOST_POINTS

PICTURES = [name for name in pf.plots.__all__ if name not in ("dashboard", "evidence")]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "run.nc"
    pf.results.save_result(path, node_tree())
    return path


@pytest.mark.parametrize("name", PICTURES)
def test_one_call_draws_a_result_a_saved_one_and_a_comparison(name, saved):
    draw = getattr(pf.plots, name)
    draw(str(saved), truth=TRUTH)
    figure = draw({"here": node_tree(), "there": saved}, truth=TRUTH, level=0.8, last=30, title="A title")
    figure.savefig(io.BytesIO())
    assert figure.get_suptitle().startswith("A title")
    assert not matplotlib.pyplot.get_fignums()


@pytest.mark.parametrize("name", pf.plots.__all__)
def test_help_shows_the_one_signature_and_says_what_each_argument_does(name):
    function = getattr(pf.plots, name)
    arguments = ["results", "names", "truth", "level", "last", "title", "labels"]
    assert list(inspect.signature(function).parameters) == arguments
    for argument in arguments:
        assert f"        {argument}: " in function.__doc__


def test_the_title_says_model_filter_and_size_unless_it_is_given():
    assert pf.plots.parameters(node_tree()).get_suptitle() == (
        "two levels · 64 nodes, Kalman · 50 observations (10 missing) to 2026-03-01"
    )
    state, history, _, _ = node_run()
    assert "60 steps" in pf.plots.parameters((state, history)).get_suptitle()
    assert pf.plots.parameters(node_tree(), title="").get_suptitle() == ""


def test_ribbons_show_the_means_the_quantiles_the_prior_and_the_truth():
    _, history, _, _ = node_run()
    axes = pf.plots.parameters(node_tree(), truth=TRUTH).axes
    assert [axis.get_ylabel() for axis in axes] == ["phi[0]", "phi[1]", "q"]
    mean, truth, prior, *_ = axes[1].lines
    assert np.array_equal(mean.get_ydata(), history.theta.mean["phi"][:, 1])
    assert truth.get_ydata()[0] == TRUTH["phi"][1]
    draws = node_tree()["prior"]["phi"].to_numpy()[0, :, 1]
    np.testing.assert_allclose(prior.get_ydata(), np.quantile(draws, [0.05, 0.95]))
    assert prior.get_xdata()[0] < axes[1].convert_xunits(node_tree()["filtered"]["time"].to_numpy()[0])
    wide = axes[1].collections[0].get_paths()[0].vertices[:, 1]
    assert np.isclose(wide.max(), history.theta.quantiles["phi"][:, 4, 1].max())
    assert np.isclose(wide.min(), history.theta.quantiles["phi"][:, 0, 1].min())


def test_names_pick_variables_and_wrong_ones_are_refused():
    assert len(pf.plots.parameters(node_tree(), names=["phi"]).axes) == 2
    with pytest.raises(pf.errors.DataError, match="no 'psi' in the result; it has"):
        pf.plots.parameters(node_tree(), names=["psi"])


def test_what_is_left_out_is_said():
    many = node_tree().copy()
    for group in ("posterior", "prior", "filtered"):
        wide = many[group]["phi"].isel(phi_dim_0=[0] * 13)
        dataset = many[group].to_dataset().drop_vars("phi").assign(phi=wide)
        many[group] = type(many)(dataset)
    assert "12 of 14 shown; pass names=" in pf.plots.parameters(many).get_suptitle()


def test_a_collapsed_filter_flattens_no_other_and_has_no_contraction():
    both = {"nodes": node_tree(), "SIR": collapsed_tree()}
    axis = pf.plots.prior_posterior(both, names=["q"]).axes[0]
    heights = {
        line.get_label(): np.max(line.get_ydata()) for line in axis.lines if not line.get_label().startswith("_")
    }
    assert heights == pytest.approx({"prior": 1.0, "nodes": 1.0, "SIR (collapsed)": 1.0})
    words = [text.get_text() for text in axis.texts]
    assert words[0].endswith("%") and words[1] == "collapsed"
    assert any(said.startswith("SIR: W01") for said in _legend(pf.plots.health(both)))
    draws = node_tree()["posterior"]["q"].to_numpy()
    assert np.ptp(axis.get_xlim()) < 2 * np.ptp(draws)  # the range of the posterior, and not of the prior


def test_last_cuts_a_window_of_time():
    whole, cut = pf.plots.state(node_tree()), pf.plots.state(node_tree(), last=20, truth={"x": np.zeros((60, 2))})
    assert [len(figure.axes[0].lines[1].get_xdata()) for figure in (whole, cut)] == [60, 20]
    with pytest.raises(pf.errors.DataError, match="last is the number of steps"):
        pf.plots.state(node_tree(), last=0)


def test_a_component_of_the_state_keeps_its_own_data_and_truth():
    _, _, data, _ = node_run()
    xs = np.stack([np.arange(60.0), -np.arange(60.0)], axis=1)
    (axis,) = pf.plots.state(node_tree(), names=["x[1]"], truth={"x": xs}).axes
    dots, _, truth = axis.lines
    assert np.array_equal(dots.get_ydata(), data.ys[:, 1], equal_nan=True)
    assert np.array_equal(truth.get_ydata(), xs[:, 1])
    with pytest.raises(pf.errors.DataError, match=r"shape \(2,\), or \(60, 2\) if it changes over time; got \(60,\)"):
        pf.plots.state(node_tree(), truth={"x": np.zeros(60)})


@pytest.mark.parametrize(("name", "one"), [("health", "ESS / N"), ("ranks", "south"), ("forecast", "south")])
def test_a_name_alone_is_a_list_of_one(name, one):
    draw = getattr(pf.plots, name)
    assert len(draw(node_tree(), names=one).axes) == len(draw(node_tree(), names=[one]).axes) == 1
    with pytest.raises(pf.errors.DataError, match="no 'E' in the result"):
        draw(node_tree(), names="E")


def test_the_fan_of_a_forecast_is_that_of_its_draws_with_dates_and_columns():
    _, _, _, ahead = node_run()
    axis = pf.plots.forecast(node_tree()).axes[1]
    np.testing.assert_allclose(axis.lines[1].get_ydata(), np.median(ahead.y, axis=0)[:, 1], rtol=1e-6)
    assert axis.get_ylabel() == "south"
    assert axis.lines[1].get_xdata()[0] == np.datetime64("2026-03-02")


def test_one_step_forecasts_mark_what_lies_outside():
    strange = node_tree().copy(deep=True)
    strange["observed_data"]["y"][40, 0] = 1e3
    axis = pf.plots.one_step(strange, names="north").axes[0]
    outside = next(line for line in axis.lines if line.get_label() == "outside").get_ydata()
    assert outside[40] == 1e3 and "of the observations outside" in axis.get_title("left")


def test_evidence_is_the_cumulative_log_bayes_factor():
    both = {"nodes": node_tree(), "SIR": collapsed_tree()}
    figure = pf.plots.evidence(both)
    gains = [tree["filter_stats"]["log_evidence_increment"].to_numpy().astype(float) for tree in both.values()]
    drawn = figure.axes[0].lines[1].get_ydata()
    np.testing.assert_allclose(np.diff(drawn), (gains[1] - gains[0])[1:], atol=1e-5)
    total = collapsed_tree().attrs["log_evidence"] - node_tree().attrs["log_evidence"]
    assert drawn[-1] == pytest.approx(total, rel=1e-6)
    assert f"SIR: {total:+.1f} at the end" in _legend(figure)
    with pytest.raises(pf.errors.DataError, match="at least two results"):
        pf.plots.evidence(node_tree())


def test_the_dashboard_has_data_state_parameters_forecast_and_health():
    figure = pf.plots.dashboard(node_tree(), truth=TRUTH)
    labels = [axis.get_ylabel() for axis in figure.axes]
    assert {"north", "south", "x[0]", "x[1]", "phi[0]", "phi[1]", "q", "ESS / N"} <= set(labels)
    assert labels.count("north") == 2  # the data, and the forecast
    ess = next(axis for axis in figure.axes if axis.get_ylabel() == "ESS / N")
    states = [axis for axis in figure.axes if axis.get_ylabel().startswith("x[")]
    assert all(axis.get_xlim() == ess.get_xlim() for axis in figure.axes if axis.get_ylabel() in ("x[0]", "q"))
    assert not any("data" in axis.get_legend_handles_labels()[1] for axis in states)
    with pytest.raises(pf.errors.DataError, match="draws one run"):
        pf.plots.dashboard({"a": node_tree(), "b": node_tree()})


def test_a_truth_that_changes_is_drawn_over_time():
    path = np.repeat([0.5, 1.5], 30)
    axis = pf.plots.parameters(node_tree(), names=["q"], truth={"q": path}).axes[0]
    truth = next(line for line in axis.lines if line.get_label() == "truth")
    assert np.array_equal(truth.get_ydata(), path)


def test_a_run_is_drawn_without_making_a_tree_of_it_and_labels_replace_the_texts_of_axes():
    state, history, data, _ = node_run()
    assert pf.plots.parameters((state, history, data)).axes[-1].get_xlabel() == "time"
    figure = pf.plots.parameters((state, history, data.ys), labels={"step": "day", "q": "noise"})
    assert (figure.axes[-1].get_xlabel(), figure.axes[-1].get_ylabel()) == ("day", "noise")


def test_missing_stretches_are_shaded():
    (shaded,) = pf.plots.state(node_tree()).axes[0].collections[-1].get_paths()
    assert np.ptp(shaded.vertices[:, 0]) == 10  # days without data


def test_an_alarm_shows_even_where_a_long_run_is_thinned():
    long = _long(100_000)
    long["filter_stats"]["ess"][54_321] = 0.0
    figure = pf.plots.health(long, names=["ESS / N"])
    assert min(figure.axes[0].lines[0].get_ydata()) == 0.0
    assert len(figure.axes[0].lines[0].get_ydata()) <= MOST_POINTS


def test_health_has_a_strip_for_each_warning_that_steps_raised():
    flagged = node_tree().copy(deep=True)
    flagged["filter_stats"]["outcome"][7] = int(pf.Outcome.MODEL_RETURNED_NAN)
    strip = next(axis for axis in pf.plots.health(flagged).axes if axis.get_ylabel() == "W07")
    assert np.flatnonzero(strip.lines[0].get_ydata()).tolist() == [7]
    assert "W07" not in [axis.get_ylabel() for axis in pf.plots.health(node_tree()).axes]


def test_a_long_run_costs_what_a_short_one_does():
    long = _long(100_000)
    long["observed_data"]["y"][::2] = np.nan  # as many gaps as there can be

    def seconds(result):
        began = time.process_time()
        for name in ("parameters", "state"):
            getattr(pf.plots, name)(result).savefig(io.BytesIO())
        return time.process_time() - began

    seconds(node_tree())
    assert seconds(long) < 4 * seconds(node_tree())


def test_uniform_ranks_lie_on_zero_and_others_leave_the_band():
    uniform = np.linspace(0.00125, 0.99875, 400)[:, None, None] * np.ones((1, 1, 2))
    nothing = np.zeros((400, 1))
    found = Calibration((10,), ("phi", "x"), uniform, nothing.astype(int))
    narrow = replace(found, ranks=uniform**2)
    axis = pf.plots.ranks({"right": found, "biased": narrow}).axes[0]
    low, high = (end - POINTS for end in band_of(0.9, 400))
    right, biased = (
        next(line.get_ydata() for line in axis.lines if line.get_label() == name) for name in ("right", "biased")
    )
    assert np.max(np.abs(right)) <= 1 / 400 and np.any((biased > high) | (biased < low))


def test_the_band_of_ranks_holds_whole_lines_with_its_level():
    low, high = band_of(0.9, 100)
    draws = np.asarray(jax.random.uniform(jax.random.key(0), (2000, 100)))
    shares = np.mean(draws[:, :, None] <= POINTS, axis=1)
    inside = np.all((shares >= low) & (shares <= high), axis=1)
    # A band of whole counts holds a little more than 90 %; 2000 lines give it to 0.7 % (one standard error).
    assert 0.88 < np.mean(inside) < 0.95


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3, "got: int"),
        ({}, "the dict is empty"),
        ("nowhere.nc", "no result at nowhere.nc"),
    ],
)
def test_what_is_no_result_is_refused(wrong, message):
    with pytest.raises(pf.errors.DataError, match=message):
        pf.plots.parameters(wrong)


def test_a_group_that_is_not_there_says_how_to_get_it():
    state, history, _, _ = node_run()
    bare = pf.to_datatree(state, history, num_draws=2)
    with pytest.raises(pf.errors.DataError, match="give the observations to to_datatree"):
        pf.plots.forecast(bare)


def test_data_that_cannot_be_drawn_behind_the_state_are_named():
    state, history, data, _ = node_run()
    for ys in (data.ys[:, :1], 100 + 30 * data.ys):  # of another shape, and far from the state
        tree = pf.to_datatree(state, history, replace(data, ys=ys, columns=None))
        assert "data are not drawn" in pf.plots.state(tree).get_suptitle()


def test_times_that_are_texts_have_few_labels():
    state, history, data, _ = node_run()
    texts = np.array([f"sample {index}" for index in range(len(data))])
    figure = pf.plots.parameters(pf.to_datatree(state, history, replace(data, times=texts)))
    figure.canvas.draw()
    labels = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert len(labels) < 10 and "sample 0" in labels


def _legend(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def _long(num_steps):
    """Repeat a result until it is long."""
    steps = np.arange(num_steps) % len(node_tree()["filtered"]["time"])
    cut = {name: group.to_dataset() for name, group in node_tree().children.items()}
    long = {
        name: one.isel(time=steps).assign_coords(time=np.arange(num_steps)) if "time" in one.dims else one
        for name, one in cut.items()
    }
    made = type(node_tree()).from_dict(long)
    made.attrs = node_tree().attrs
    return made


@pytest.mark.parametrize("name", ["dashboard", "one_step", "forecast", "prior_posterior"])
def test_the_legend_and_the_title_fit_into_the_figure(name):
    figure = getattr(pf.plots, name)(node_tree(), names=["q"] if name == "prior_posterior" else None)
    figure.canvas.draw()
    parts = [figure.legends[0].get_window_extent(), figure.texts[0].get_window_extent()]
    assert all(part.x0 >= 0 and part.x1 <= figure.bbox.width for part in parts)


def test_a_truth_of_what_no_result_has_is_refused():
    with pytest.raises(pf.errors.DataError, match=r"truth has 'phii', which no result has; did you mean phi\?"):
        pf.plots.parameters(node_tree(), truth={"phii": 0.3})

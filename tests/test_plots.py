"""Each picture: drawn from a result, a saved one and a dict of both; what it shows is what the result holds."""

import inspect
import io
import time
from dataclasses import replace

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from results_of_a_run import TRUTH, run, tree

import paramfilter as pf
from paramfilter.calibration import Calibration
from paramfilter.plots.style import MOST_POINTS

PICTURES = ("parameters", "state", "health", "pairs", "prior_posterior", "forecast", "ranks", "convergence")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "run.nc"
    pf.results.save_result(path, tree())
    return path


@pytest.mark.parametrize("name", PICTURES)
def test_one_call_draws_a_result_a_saved_one_and_a_comparison(name, saved):
    draw = getattr(pf.plots, name)
    draw(str(saved), truth=TRUTH)
    figure = draw({"here": tree(), "there": saved}, truth=TRUTH, level=0.8, title="A title")
    figure.savefig(io.BytesIO())
    assert figure.get_suptitle() == "A title"
    assert not matplotlib.pyplot.get_fignums()


def test_ribbons_show_the_means_and_the_truth():
    _, history, _, _ = run()
    figure = pf.plots.parameters(tree(), truth=TRUTH)
    axes = figure.axes
    assert [axis.get_ylabel() for axis in axes] == ["phi[0]", "phi[1]", "q"]
    mean, truth = axes[1].lines
    assert np.array_equal(mean.get_ydata(), history.theta.mean["phi"][:, 1])
    assert truth.get_ydata()[0] == TRUTH["phi"][1]


def test_names_pick_variables_and_wrong_ones_are_refused():
    assert len(pf.plots.parameters(tree(), names=["phi"]).axes) == 2
    with pytest.raises(pf.errors.DataError, match="no 'psi' in the result; it has"):
        pf.plots.parameters(tree(), names=["psi"])


def test_a_component_of_the_state_keeps_its_own_data_and_truth():
    _, _, data, _ = run()
    xs = np.stack([np.arange(60.0), -np.arange(60.0)], axis=1)
    (axis,) = pf.plots.state(tree(), names=["x[1]"], truth={"x": xs}).axes
    dots, _, truth = axis.lines
    assert np.array_equal(dots.get_ydata(), data.ys[:, 1], equal_nan=True)
    assert np.array_equal(truth.get_ydata(), xs[:, 1])


def test_true_states_of_another_shape_are_refused():
    with pytest.raises(pf.errors.DataError, match=r"the shape of the filtered states, \(60, 2\); got \(60,\)"):
        pf.plots.state(tree(), truth={"x": np.zeros(60)})


@pytest.mark.parametrize(("name", "one"), [("health", "ESS / N"), ("ranks", "y[1]"), ("forecast", "y")])
def test_a_name_alone_is_a_list_of_one(name, one):
    draw = getattr(pf.plots, name)
    assert len(draw(tree(), names=one).axes) == len(draw(tree(), names=[one]).axes)
    with pytest.raises(pf.errors.DataError, match="no 'E' in the result"):
        draw(tree(), names="E")


@pytest.mark.parametrize("name", pf.plots.__all__)
def test_help_shows_the_one_signature(name):
    shown = inspect.signature(getattr(pf.plots, name))
    assert list(shown.parameters) == ["results", "names", "truth", "level", "title"]


def test_the_fan_of_a_forecast_is_that_of_its_draws():
    _, _, _, ahead = run()
    median = pf.plots.forecast(tree()).axes[1].lines[1].get_ydata()
    assert np.isfinite(median).all()
    np.testing.assert_allclose(median, np.median(ahead.y, axis=0)[:, 1], rtol=1e-6)


def test_missing_stretches_are_shaded():
    figure = pf.plots.state(tree())
    (shaded,) = figure.axes[0].collections[-1].get_paths()
    assert np.ptp(shaded.vertices[:, 0]) == 10  # days without data


def test_gaps_too_narrow_to_be_seen_become_one_pale_stretch():
    patchy = _long(100_000)
    patchy["observed_data"]["y"] = patchy["observed_data"]["y"].fillna(0.0)
    patchy["observed_data"]["y"][40_000:60_000:2] = np.nan
    shaded = pf.plots.state(patchy).axes[0].collections[-1]
    (path,) = shaded.get_paths()
    assert [path.vertices[:, 0].min(), path.vertices[:, 0].max()] == [39_999.5, 59_999.5]
    assert shaded.get_facecolor()[0, 3] == 0.5


def test_an_alarm_shows_even_where_a_long_run_is_thinned():
    long = _long(100_000)
    long["filter_stats"]["ess"][54_321] = 0.0
    figure = pf.plots.health(long, names=["ESS / N"])
    assert min(figure.axes[0].lines[0].get_ydata()) == 0.0
    assert len(figure.axes[0].lines[0].get_ydata()) <= MOST_POINTS


def test_a_long_run_costs_what_a_short_one_does():
    long = _long(100_000)
    long["observed_data"]["y"][::2] = np.nan  # as many gaps as there can be

    def seconds(result):
        began = time.process_time()
        for name in ("parameters", "state", "health"):
            getattr(pf.plots, name)(result).savefig(io.BytesIO())
        return time.process_time() - began

    seconds(tree())
    assert seconds(long) < 4 * seconds(tree())


def test_error_against_order_wants_orders():
    figure = pf.plots.error_against_order({3: tree(), 5: tree()})
    assert list(figure.axes[0].lines[0].get_xdata()) == [3, 5]
    with pytest.raises(pf.errors.DataError, match="must be orders"):
        pf.plots.error_against_order({"three": tree()})


def test_ranks_of_a_calibration():
    uniform = np.linspace(0.001, 0.999, 400)[:, None, None] * np.ones((1, 1, 2))
    nothing = np.zeros((400, 1))
    found = Calibration((10,), ("phi", "x"), uniform, nothing, nothing.astype(int), nothing.astype(int))
    figure = pf.plots.ranks({"ours": found})
    heights = [bar.get_height() for bar in figure.axes[0].containers[0]]
    assert heights == [20] * 20


def test_the_animation_ends_where_the_run_ends(tmp_path):
    moving = pf.plots.animation(tree(), names=["q"], truth=TRUTH)
    last = list(moving.new_frame_seq())[-1]
    assert last == len(tree()["filtered"]["time"]) - 1
    curve, heading = moving._func(last)
    top = curve.get_xdata()[np.argmax(curve.get_ydata())]
    _, history, _, _ = run()
    assert abs(top - history.theta.mean["q"][-1]) < history.theta.sd["q"][-1]
    assert heading.get_text() == "after 60 observations"


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
    state, history, _, _ = run()
    bare = pf.to_datatree(state, history, num_draws=2)
    with pytest.raises(pf.errors.DataError, match="give the observations to to_datatree"):
        pf.plots.forecast(bare)


def _long(num_steps):
    """Repeat a result until it is long."""
    steps = np.arange(num_steps) % len(tree()["filtered"]["time"])
    groups = ("filtered", "filtered_state", "filter_stats", "observed_data")
    long = {
        name: tree()[name].to_dataset().isel(time=steps).assign_coords(time=np.arange(num_steps)) for name in groups
    }
    made = type(tree()).from_dict(long)
    made.attrs = tree().attrs
    return made


def test_data_far_from_the_state_have_a_scale_of_their_own():
    near = pf.plots.state(tree(), names=["x[0]"])
    assert len(near.axes) == 1 and "data" in near.axes[0].get_legend_handles_labels()[1]
    state, history, data, _ = run()
    far = pf.plots.state(pf.to_datatree(state, history, replace(data, ys=100 + 30 * data.ys)), names=["x[0]"])
    panel, right = far.axes
    assert "data (right)" in panel.get_legend_handles_labels()[1]
    np.testing.assert_allclose(right.lines[0].get_ydata(), 100 + 30 * data.ys[:, 0], rtol=1e-5)
    low, high = panel.get_ylim()
    assert high - low < 20  # of the state alone


def test_times_that_are_texts_have_few_labels():
    state, history, data, _ = run()
    texts = np.array([f"sample {index}" for index in range(len(data))])
    figure = pf.plots.parameters(pf.to_datatree(state, history, replace(data, times=texts)))
    figure.canvas.draw()
    labels = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert len(labels) < 10 and "sample 0" in labels

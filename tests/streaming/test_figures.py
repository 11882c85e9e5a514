"""The figures of a step stand under their names, and forecasts are those that the step itself made."""

import json

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter_streams import Event, Fate
from paramfilter_streams.figures import columns_of, figures_of
from paramfilter_streams.ordering import Step
from paramfilter_streams.posteriors import outputs_of

MODEL = pf.StateSpaceModel(
    prior={"level": dist.Normal(50.0, 1.0), "drift": dist.Normal(-5.0, 0.1)},
    initial=lambda theta, inputs: dist.Normal(theta["level"], 0.1),
    transition=lambda theta, x, inputs: dist.Normal(x + theta["drift"], 0.1),
    observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
)


def one_step(filter, y, forecasts=True):
    before = filter.init(jax.random.key(0))

    @jax.jit
    def take(before, y):
        after, info = filter.step(before, y)
        return figures_of(filter, forecasts, before, y, None, after, info)

    return dict(zip(columns_of(filter), np.asarray(take(before, np.float32(y))).tolist(), strict=True))


@pytest.mark.parametrize("make", [pf.sir_filter, pytest.param(pf.node_filter, marks=pytest.mark.slow)])
def test_each_figure_stands_under_its_name(make):
    figures = one_step(make(MODEL, 64), 45.5)
    assert figures["mean:level"] == pytest.approx(50.0, abs=2.0) and figures["mean:drift"] == pytest.approx(-5, abs=0.3)
    assert figures["y:y"] == 45.5 and 0 < figures["pit:y"] < 1 and figures["outcome"] == 0
    assert figures["forecast_mean:y"] == pytest.approx(45.0, abs=0.6), "four standard errors of 64 particles"
    assert 0.6 < figures["forecast_sd:y"] < 1.8, "1.13 in truth"
    assert 1 < figures["ess"] <= 64


def test_the_output_of_a_surprising_observation_says_so():
    filter = pf.sir_filter(MODEL, 64)
    columns = columns_of(filter)
    step = Step(1, Event("a", 1, [52.0], None, None), Fate.APPLIED)
    expected, surprising = (
        one_step(filter, 45.0),
        one_step(filter, 52.0),
    )  # 7 above a forecast with an sd near 1; 64 particles resolve 1 / 64
    assert expected["tail_probability:y"] > 0.3 and surprising["tail_probability:y"] < 0.05
    (output,) = outputs_of([("a", step)], np.array([[surprising[name] for name in columns]]), columns)
    said = json.loads(output.line)
    assert {"series", "seq", "forecast_mean:y", "forecast_sd:y", "pit:y", "tail_probability:y"} <= said.keys()
    assert said["tail_probability:y"] == surprising["tail_probability:y"] and said["pit:y"] > 0.95


def test_a_missing_observation_still_has_a_forecast():
    figures = one_step(pf.sir_filter(MODEL, 64), np.nan)
    assert np.isnan(figures["y:y"]) and np.isnan(figures["pit:y"])
    assert figures["forecast_mean:y"] == pytest.approx(45.0, abs=0.6)


def test_forecasts_can_be_left_out():
    figures = one_step(pf.sir_filter(MODEL, 64), 45.5, forecasts=False)
    assert figures["y:y"] == 45.5 and all(np.isnan(figures[f"{one}:y"]) for one in ("forecast_mean", "pit"))

"""The pages show what is there, in an order that people expect, and escape what comes from outside."""

import html
import logging
import math
import re

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.support.streams.toy import line

import paramfilter as pf
from paramfilter_streams import FileLog, FleetResidents, Posterior, Store, Worker
from paramfilter_streams.serving import Metrics, make_front
from paramfilter_streams.serving.about import about_filter
from paramfilter_streams.serving.bands import band_within
from paramfilter_streams.serving.listing import PAGE, Lister, Query, natural, read_query
from paramfilter_streams.serving.pictures import Chart, draw
from paramfilter_streams.serving.series_page import LINE
from paramfilter_streams.serving.standing import low_ess_below, standing_of

FILTER = pf.sir_filter(pf.models.linear_gaussian(r=0.5), 16)
NAMES = [f"sensor-{number}" for number in range(1, PAGE + 3)]
OUTLIER, SECRET = "sensor-20", 12.28125


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "log").mkdir()
    lines = [line(name, step, 0.1 * step) for step in (1, 2, 3) for name in NAMES] + [line(OUTLIER, 4, SECRET)]
    lines += [line("sensor-3", 4, None)]
    (folder / "log" / "0.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    residents = FleetResidents(FILTER, room=100, forecasts=True)
    worker = Worker(residents, FileLog(folder / "log"), Store(folder / "store", residents.identity))
    worker.run(lambda: False, until_idle=True)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def about():
    return about_filter(FILTER, "sir_filter")


@pytest.fixture(scope="module")
def client(worker, about):
    return TestClient(make_front(worker, Metrics(worker), None, about))


def listed(client, query=""):
    return re.findall(r'href="/series/([^"]+)"', client.get(f"/{query}").text)


def test_series_stand_in_natural_order_fifty_at_a_time(client):
    assert listed(client) == NAMES[:PAGE], "2 before 10"
    assert listed(client, "?page=2") == listed(client, "?page=999999999") == NAMES[PAGE:]
    assert "page 1 of 2" in client.get("/").text and "order=name&amp;page=2" in client.get("/").text


def test_search_finds_a_part_of_a_name_in_any_case(client):
    assert listed(client, "?q=SENSOR-5") == ["sensor-5", "sensor-50", "sensor-51", "sensor-52"]
    assert listed(client, "?q=nobody") == [] and "No series has “nobody”" in client.get("/?q=nobody").text


def test_worst_first_begins_with_the_smallest_ess(client, worker):
    names = listed(client, "?order=worst")
    ess = {name: one.figures["ess"] for name, one in worker.newest(NAMES).items()}
    assert names[0] == OUTLIER and [ess[name] for name in names] == sorted(ess.values())[:PAGE]


def test_newest_is_the_last_of_the_latest(worker):
    assert worker.newest([OUTLIER, "sensor-1", "nobody"]) == {
        name: worker.latest(name)[-1] for name in (OUTLIER, "sensor-1")
    }
    worker._presence.ledgers["sensor-1"].sequence += 1  # a step that is not durable yet
    assert worker.newest(["sensor-1"])["sensor-1"].sequence == 3
    worker._presence.ledgers["sensor-1"].sequence -= 1


def test_worst_first_is_read_again_only_after_a_while(worker, monkeypatch):
    lister, calls = Lister(worker), []
    monkeypatch.setattr(worker, "newest", lambda names: calls.append(names) or {})
    monkeypatch.setattr("paramfilter_streams.serving.listing.time.monotonic", iter([100.0, 101.0, 110.0]).__next__)
    lister.select(Query(order="worst"))
    lister.select(Query(order="worst"))
    assert len(calls) == 1, "one second of reading is paid for by twenty"


@pytest.mark.parametrize("hostile", ['"><script>alert(1)</script>', "<b>", "'&amp;", "a" * 500])
def test_what_comes_from_a_request_is_escaped(client, hostile):
    text = client.get("/", params={"q": hostile, "order": hostile, "page": hostile, "refresh": hostile}).text
    assert "<script" not in text and f"“{html.escape(hostile[:128])}”" in text
    assert f'value="{html.escape(hostile[:128])}"' in text and not re.search("a{129,}", text)
    assert 'content="30"' in text and '<option value="name" selected>' in text


def test_a_query_that_makes_no_sense_is_the_default():
    assert read_query({"order": "best", "page": "-1", "refresh": "1"}) == Query()
    assert read_query({"q": " a ", "order": "worst", "page": "3", "refresh": "0"}) == Query("a", "worst", 3, "0")


def test_reloading_can_be_turned_off(client):
    assert "http-equiv" in client.get("/").text and "http-equiv" not in client.get("/?refresh=0").text
    assert "http-equiv" not in client.get("/series/sensor-1?refresh=0").text


def test_names_are_sorted_by_the_value_of_their_numbers():
    names = ["2a", "a", "a2", "a02b", "a10", "a" + "9" * 100]
    assert sorted(reversed(names), key=natural) == names


def test_the_heading_says_what_runs_since_when(client):
    text = client.get("/").text
    assert re.search(r"linear_gaussian · sir_filter, N = 16 · started \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", text)


def test_a_series_shows_data_forecasts_parameters_and_ess(client):
    text = client.get("/series/sensor-3").text
    for title in ("Observations and one-step forecasts", "Parameters", "Effective sample size"):
        assert f"<h2>{title}</h2>" in text
    assert text.count('class="seen"') == 2 * 3, "three observations in two sizes; the fourth step has none"
    assert text.count('class="missing"') == 2 and "observed nothing" in text


def test_pages_load_nothing_and_run_nothing(client):
    for path in ("/", "/series/sensor-1"):
        answer = client.get(path)
        assert not re.search(r"<script|src=|https?://| on[a-z]+=", answer.text)
        assert "form-action 'self'" in answer.headers["Content-Security-Policy"]


def test_observations_are_not_logged_and_need_the_token(worker, about, caplog):
    client = TestClient(make_front(worker, Metrics(worker), b"0123456789abcdef", about))
    with caplog.at_level(logging.DEBUG):
        open_texts = [client.get(path).text for path in ("/metrics", "/health", "/ready", f"/series/{OUTLIER}")]
        shown = client.get(f"/posterior/{OUTLIER}", headers={"Authorization": "Bearer 0123456789abcdef"})
        worker.work_once()
    assert shown.json()["posteriors"][0]["figures"]["y:y"] == SECRET
    assert str(SECRET) not in "".join(open_texts) + caplog.text


def posteriors(ess, outcome=0.0, num_steps=60, **more):
    figures = {"mean:phi": 0.3, "sd:phi": 0.1, "ess": ess, "log_evidence_increment": -1.0, "outcome": outcome}
    figures |= {"approximation_error": 0.0, **more}
    return [Posterior(step + 1, "applied", {**figures, "pit:y": (step % 50) / 50}) for step in range(num_steps)]


def test_status_comes_from_the_diagnostics(about):
    assert standing_of(posteriors(16.0), about)[:2] == ("good", "no warning")
    assert standing_of(posteriors(3.0), about)[:2] == ("watch", "low ESS"), "3 of 16 is not well"
    assert standing_of(posteriors(0.5), about)[:2] == ("bad", "W01, low ESS")
    assert standing_of(posteriors(16.0, outcome=2.0), about).words == "W06"
    surprised = [one._replace(figures={**one.figures, "pit:y": 0.99}) for one in posteriors(16.0)]
    assert standing_of(surprised, about).words == "W05"
    assert standing_of(posteriors(16.0), None).words == "not judged"


def test_low_means_a_share_of_n_or_too_few_at_all(about):
    assert low_ess_below(about) == 16 and low_ess_below(about._replace(size=10_000)) == 500
    assert low_ess_below(about._replace(unit="nodes")) == pytest.approx(0.8)


@pytest.mark.parametrize("bounds", [(0.0, math.inf), (-math.inf, 1.0), (0.0, 1.0), (-math.inf, math.inf)])
def test_bands_stay_within_the_support_and_hold_the_mean(bounds):
    means, sds = [0.5, 0.01, 0.99, 0.5, 0.5], [0.1, 0.05, 0.05, 0.7, 0.0]
    low, high = band_within(means, sds, bounds)
    assert np.all(low >= bounds[0]) and np.all(high <= bounds[1]) and np.all(low <= high)
    assert low[0] < 0.5 < high[0] and low[4] == high[4] == 0.5


def test_bands_are_quantiles_of_known_distributions():
    gaussian, gamma, beta = (band_within([0.5], [0.1], one) for one in (LINE, (0.0, math.inf), (0.0, 1.0)))
    assert np.ravel(gaussian) == pytest.approx([0.5 - 0.16449, 0.5 + 0.16449], abs=1e-4)
    assert np.ravel(gamma) == pytest.approx([0.34764, 0.67505], abs=1e-4), "Gamma(25, 50)"
    assert np.ravel(beta) == pytest.approx([0.33520, 0.66480], abs=1e-3), "Beta(12, 12)"
    exponential = band_within([1.0], [1.0], (0.0, math.inf))
    assert np.ravel(exponential) == pytest.approx([-math.log(0.95), -math.log(0.05)])


def test_bounds_come_from_the_prior():
    import numpyro.distributions as dist

    model = pf.models.linear_gaussian(phi=dist.Uniform(-1.0, 1.0), q=dist.HalfNormal(1.0))
    assert about_filter(pf.sir_filter(model, 8), "sir_filter").bounds == {"phi": (-1.0, 1.0), "q": (0.0, math.inf)}


def test_figures_that_are_not_finite_leave_a_gap_or_a_sentence():
    values = np.array([1.0, math.nan, 3.0])
    assert "nan" not in draw(Chart("x", [1, 2, 3], values, values, values))
    nothing = np.full(3, math.nan)
    assert "not finite" in draw(Chart("x", [1, 2, 3], nothing, nothing, nothing))
    assert "<svg" in draw(Chart("one step", [1], values[:1], values[:1], values[:1]))

"""The front says how the fleet is to whoever may ask, and nothing more."""

import logging
import re

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.service.asking import ask
from tests.support.service.kills import RULES
from tests.support.service.lines import line
from tests.support.service.working import ListLog, opened, small_table

import paramfilter as pf
from paramfilter_service.configuration import Http, read_configuration
from paramfilter_service.service import make_front, warm_up
from paramfilter_service.views import BUCKETS, Histogram, Metrics

SECRET = 0.123456789
TOKEN = b"0123456789abcdef"


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    lines = [line("oslo", one, SECRET) for one in (1, 2, 4, 5, 6)] + [line("lima-2", 1, None), b"poison"]
    lines += [line(f"s{one:02}", 1, one / 10) for one in range(60)]
    worker = opened(tmp_path_factory.mktemp("served") / "fleet.db", ListLog(lines), small_table(RULES))
    warm_up(worker.table)
    while worker.work_once():
        pass
    yield worker
    worker.close()


@pytest.fixture
def metrics(worker):
    metrics = Metrics(worker)
    metrics.observe()
    metrics.delays.add([0.004, 0.2, 0.2, 99.0])
    return metrics


@pytest.fixture
def front(worker, metrics):
    return make_front(worker, metrics, token=None)


def test_a_series_as_json(front):
    found = ask(front, "/series/oslo").json()
    assert found["series"] == "oslo"
    assert [(one["seq"], one["fate"]) for one in found["steps"]] == [
        *((1, "applied"), (2, "applied"), (3, "filled"), (4, "applied"), (5, "applied"), (6, "applied"))
    ]
    assert found["steps"][2]["y"] is None and found["steps"][0]["y"] == SECRET
    assert {"phi_mean", "phi_sd", "ess", "outcome", "log_score", "forecast_mean", "pit"} <= found["steps"][0].keys()


@pytest.mark.parametrize("name", ["nobody", "a" * 129, "../etc", "os lo", "osl", "\0", "oslo' OR 1=1 --", ""])
def test_a_name_that_is_not_there_is_not_found(front, name):
    for path in ("/series/", "/picture/"):
        assert ask(front, path + name).status == 404
    assert "Fleet" in ask(front, f"/?series={name}").text


def test_only_reading_is_allowed(front):
    for path in ("/", "/series/oslo", "/health"):
        assert ask(front, path, "POST").status == 405
        assert ask(front, path, "HEAD").body == b""


def test_health_and_readiness(worker, front, monkeypatch):
    assert ask(front, "/health").status == ask(front, "/ready").status == 200
    monkeypatch.setattr(worker, "not_ready", "cannot write to the store")
    assert ask(front, "/ready").status == 503 and "cannot write" in ask(front, "/").text
    assert ask(front, "/health").status == 200


def test_a_token_opens_what_holds_data(worker, metrics):
    front = make_front(worker, metrics, TOKEN)
    for path in ("/series/oslo", "/picture/oslo", "/", "/anything"):
        for wrong in (
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcdeg",
            "Bearer 0123456789abcdefg",
            "0123456789abcdef",
        ):
            assert ask(front, path, authorization=wrong).status == 401
    assert ask(front, "/series/oslo", authorization="Bearer 0123456789abcdef", host="evil.example").status == 200
    for path in ("/health", "/ready", "/metrics"):
        assert ask(front, path).status == 200 and "oslo" not in ask(front, path).text


def test_prometheus_reads_the_metrics(front):
    reply = ask(front, "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    values = {(one.name, *sorted(one.labels.values())): one.value for f in families.values() for one in f.samples}
    assert values["paramfilter_events_total", "quarantined"] == 1 and values["paramfilter_events_total", "missing"] == 1
    assert values["paramfilter_events_total", "applied"] == 65 and values["paramfilter_steps_filled_total",] == 1
    assert values["paramfilter_events_received_total",] == 67 and values["paramfilter_events_waiting",] == 0
    assert values["paramfilter_ready",] == 1 and values["paramfilter_series",] == 62
    assert values["paramfilter_delay_seconds_bucket", "0.25"] == 3 and values["paramfilter_delay_seconds_count",] == 4
    assert values["paramfilter_commit_seconds_count",] == 1 and values["paramfilter_commit_seconds_bucket", "+Inf"] == 1
    assert "paramfilter_log_lag" not in families, "this log does not know"
    assert families["paramfilter_events"].type == "counter" and families["paramfilter_series"].type == "gauge"
    assert values["paramfilter_log_last_read_timestamp_seconds",] > 1e9


def test_whatever_is_observed_ends_nothing(worker, monkeypatch):
    """Two events at -1.7e308 s once ended the process: their delays overflowed in a sum."""
    metrics = Metrics(worker)
    for delays in ([1.7e308, 1.7e308], [-1e30], [float("nan"), 1.0], None, ["x"]):
        monkeypatch.setattr(worker, "delays", delays)
        metrics.observe()
        assert "paramfilter_delay_seconds_sum" in metrics.text()
    assert metrics.failures >= 1


def test_durations_are_counted_by_size():
    histogram = Histogram()
    histogram.add(np.array([0.0, 0.005, 0.006, 60.0, 61.0]))
    assert histogram.buckets[0] == (0.005, 2) and histogram.buckets[-2:] == [(60.0, 4), ("+Inf", 5)]
    assert len(histogram.buckets) == len(BUCKETS) + 1 and histogram.total == pytest.approx(121.011)


def names_of(page):
    return re.findall(r">([\w-]+)</a></td>", page)


def test_the_page_lists_the_worst_first_by_name_and_by_search(front):
    worst = names_of(ask(front, "/").text)
    assert len(worst) == 50
    steps = [ask(front, f"/series/{name}").json()["steps"][-1] for name in worst]
    keys = [(step["outcome"] == 0, step["ess"]) for step in steps]
    assert keys == sorted(keys)
    by_name = names_of(ask(front, "/?order=name").text) + names_of(ask(front, "/?order=name&page=2").text)
    assert by_name == sorted(by_name) and len(by_name) == 62
    assert names_of(ask(front, "/?order=name&q=S0").text) == [f"s0{one}" for one in range(10)]
    assert "No series with “&lt;b&gt;”" in ask(front, "/?q=<b>").text
    for odd in ("/?page=0", "/?page=x", "/?order=;DROP", "/?page=999999", "/?q=%", "/?q=" + "a" * 5000, "/?series=%00"):
        assert ask(front, odd).status == 200


def test_the_page_of_a_series_has_its_picture_and_loads_nothing_from_elsewhere(front):
    page = ask(front, "/?series=oslo")
    assert '<img src="/picture/oslo"' in page.text and "6 steps; the last was applied" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(r"<script|https?://", page.text)
    picture = ask(front, "/picture/oslo")
    assert (
        picture.headers["content-type"] == "image/png"
        and picture.body.startswith(b"\x89PNG")
        and len(picture.body) > 5000
    )


def test_nothing_of_an_observation_is_logged(worker, front, caplog):
    with caplog.at_level(logging.DEBUG):
        for path in ("/", "/series/oslo", "/metrics", "/picture/oslo"):
            ask(front, path)
        worker.work_once()
    assert str(SECRET) not in caplog.text and "oslo" not in caplog.text


CONFIG = """
[model]
name = "linear_gaussian"
numbers = { r = 0.5 }
[filter]
algorithm = "sir_filter"
options = { num_particles = 8 }
[log]
kind = "files"
path = "LOG"
[store]
path = "STORE"
[rules]
reorder = 2
[http]
port = 8081
"""


def configured(tmp_path, change=("", "")):
    (tmp_path / "log").mkdir(exist_ok=True)
    text = CONFIG.replace(*change).replace("LOG", str(tmp_path / "log")).replace("STORE", str(tmp_path / "fleet.db"))
    (tmp_path / "config.toml").write_text(text)
    return read_configuration(tmp_path / "config.toml")


def test_a_configuration_makes_a_worker(tmp_path):
    configuration = configured(tmp_path)
    assert (configuration.http.host, configuration.http.port) == ("127.0.0.1", 8081)
    worker = configuration.make_worker()
    assert worker.table.rules.reorder == 2 and worker.table.filter.size == 8 and worker.store.keep == 64
    assert "forecast_mean" in worker.table.output_schema.names
    worker.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("num_particles = 8", "num_particles = 8, num_kept = 32"), "does not fit.*num_kept"),
        (("linear_gaussian", "os.system"), "no model 'os.system'.*linear_gaussian"),
        (("linear_gaussian", "__import__"), "no model"),
        (("r = 0.5", "r = 'dist.Normal(0, 1)'"), "numbers"),
        (("r = 0.5", "s = 0.5"), "does not fit"),
        (("sir_filter", "choose_belief"), "no algorithm"),
        (('kind = "files"', 'kind = "pickle"'), "Invalid value 'pickle'.*log.kind"),
        (("[store]", "[store]\nkeeps = 4"), "unknown field `keeps`.*store"),
        (("[store]", '[store]\nkeep = "4"'), "Expected `int`, got `str`.*store.keep"),
        (("[rules]", "[laws]"), "unknown field `laws`"),
        (("reorder = 2", "reorder = -2"), "0 or more"),
        (("reorder = 2", "reorders = 2"), "does not fit.*reorders"),
        (("[model]", "[model"), "is not a configuration"),
        (('[store]\npath = "STORE"', ""), "missing required field `store`"),
        (("LOG", "/nowhere"), "no directory of logs"),
    ],
)
def test_a_configuration_that_says_what_it_should_not_is_refused(tmp_path, change, words):
    with pytest.raises(pf.errors.DataError, match=words):
        configured(tmp_path, change).make_worker()


def test_an_address_that_others_reach_needs_a_token_of_some_length(tmp_path):
    with pytest.raises(pf.errors.DataError, match=r"not loopback.*token_file"):
        Http("0.0.0.0").token()
    assert Http("::1").token() is None and Http("localhost").token() is None
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(pf.errors.DataError, match="at least 16"):
        Http("0.0.0.0", token_file=str(tmp_path / "token")).token()
    (tmp_path / "token").write_bytes(TOKEN + b"\n")
    assert Http("0.0.0.0", token_file=str(tmp_path / "token")).token() == TOKEN

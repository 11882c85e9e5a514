"""The front says how the fleet is to whoever may ask, and nothing more."""

import json
import logging
import re
import sys
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from tests.support.streams.toy import HashResidents, line

import paramfilter as pf
from paramfilter_streams import FileLog, Store, Worker
from paramfilter_streams.serving import Configuration, Http, Metrics, make_front, read_configuration
from paramfilter_streams.serving.pictures import ticks

SECRET = 0.123456789
TOKEN = b"0123456789abcdef"


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    (folder / "log").mkdir()
    lines = [line("oslo", one, SECRET) for one in (1, 2, 4)] + [line("lima-2", 1, None), b"poison"]
    (folder / "log" / "0.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    residents = HashResidents()
    worker = Worker(residents, FileLog(folder / "log"), Store(folder / "store", residents.identity))
    worker.run(lambda: False, until_idle=True)
    yield worker
    worker.close()


@pytest.fixture
def metrics(worker):
    metrics = Metrics(worker)
    metrics.add_delays([0.004, 0.2, 0.2, 99.0])
    return metrics


@pytest.fixture
def client(worker, metrics):
    return TestClient(make_front(worker, metrics, token=None))


def test_a_posterior_by_name(client):
    answer = client.get("/posterior/oslo").json()
    assert answer["series"] == "oslo" and [one["sequence"] for one in answer["posteriors"]] == [4]
    history = client.get("/posterior/oslo?history").json()["posteriors"]
    assert [(one["sequence"], one["fate"]) for one in history] == [
        *((1, "applied"), (2, "applied"), (3, "filled"), (4, "applied"))
    ]
    assert set(history[0]["figures"]) == {"mean:hash", "sd:hash"}


@pytest.mark.parametrize("name", ["nobody", "a" * 129, "..%2F..%2Fetc", "os lo", "osl", "%00"])
def test_a_name_that_is_not_there_is_not_found(client, name):
    assert client.get(f"/posterior/{name}").status_code == 404
    assert client.get(f"/series/{name}").status_code == 404


def test_only_reading_is_allowed(client):
    for path in ("/", "/posterior/oslo", "/health"):
        assert client.post(path, content=b"x").status_code == 405


def test_health_and_readiness(worker, metrics):
    assert TestClient(make_front(worker, metrics, None)).get("/health").status_code == 200
    client = TestClient(make_front(worker, metrics, None))
    assert client.get("/ready").status_code == 200
    worker._committer.has_no_room = "there is no room"
    assert client.get("/ready").status_code == 503 and "cannot write" in client.get("/").text
    worker._committer.has_no_room, worker.is_ready = "", False
    assert client.get("/ready").status_code == 503 and "starting" in client.get("/").text
    worker.is_ready = True


def test_a_token_opens_what_holds_data(worker, metrics):
    client = TestClient(make_front(worker, metrics, TOKEN))
    for path in ("/posterior/oslo", "/series/oslo", "/", "/anything"):
        assert client.get(path).status_code == 401
        for wrong in ("", " ", " 0123456789abcdeg", " 0123456789abcdefg"):
            assert client.get(path, headers={"Authorization": f"Bearer{wrong}"}).status_code == 401
        for wrong in ("Basic 0123456789abcdef", "0123456789abcdef"):
            assert client.get(path, headers={"Authorization": wrong}).status_code == 401
    assert client.get("/posterior/oslo", headers={"Authorization": "Bearer 0123456789abcdef"}).status_code == 200
    for path in ("/health", "/ready", "/metrics"):
        assert client.get(path).status_code == 200 and "oslo" not in client.get(path).text


def test_prometheus_reads_the_metrics(client):
    answer = client.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    values = {(one.name, *sorted(one.labels.values())): one.value for f in families.values() for one in f.samples}
    assert values["paramfilter_events_total", ".", "quarantined"] == 1
    assert values["paramfilter_events_total", ".", "applied"] == 3
    assert values["paramfilter_events_received_total", "."] == 5 and values["paramfilter_steps_filled_total", "."] == 1
    assert values["paramfilter_ready",] == 1 and values["paramfilter_series",] == 2
    assert values["paramfilter_delay_seconds_bucket", "0.25"] == 3 and values["paramfilter_delay_seconds_count",] == 4
    assert values["paramfilter_commit_seconds_count",] == 1 and values["paramfilter_commit_seconds_bucket", "60.0"] == 1
    assert "paramfilter_snapshot_timestamp_seconds" not in families, "this service takes no snapshots"
    assert families["paramfilter_events"].type == "counter" and families["paramfilter_offset"].type == "gauge"


def test_metrics_say_how_far_behind_the_log_the_worker_is(worker, client, monkeypatch):
    def value(name):
        return next(float(one.split()[1]) for one in client.get("/metrics").text.splitlines() if one.startswith(name))

    assert value("paramfilter_log_lag") == 0 and time.time() - value("paramfilter_log_last_read") < 3600
    monkeypatch.setattr(worker.log, "lag", 17)
    monkeypatch.setattr(worker, "last_read", None)
    assert value("paramfilter_log_lag") == 17 and value("paramfilter_log_last_read") == 0
    assert value("paramfilter_ready") == 0 and "waiting for the log" in client.get("/ready").text
    monkeypatch.setattr(worker.log, "lag", None)
    assert "paramfilter_log_lag" not in client.get("/metrics").text


def test_each_front_has_a_registry_of_its_own(worker, metrics):
    assert Metrics(worker).delay_quantile(0.5) is None and metrics.delay_quantile(0.5) == 0.25


def test_without_prometheus_client_the_error_names_the_extra(worker, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(pf.errors.MissingExtraError, match=r'pip install "paramfilter\[serve\]"'):
        Metrics(worker)


def test_pages_show_the_fleet_and_load_nothing(client):
    fleet, series = client.get("/"), client.get("/series/oslo")
    assert "lima-2" in fleet.text and "&gt; 60 s" in fleet.text and "not judged" in fleet.text
    assert "<polygon" in series.text and series.text.count("<circle") == 2, "one step without observation, in two sizes"
    for page in (fleet, series):
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert not re.search(r"<script|src=|https?://", page.text)


def test_nothing_of_an_observation_is_logged_or_told(worker, client, caplog):
    with caplog.at_level(logging.DEBUG):
        texts = [client.get(path).text for path in ("/", "/series/oslo", "/posterior/oslo?history", "/metrics")]
        worker.work_once()
    assert str(SECRET) not in "".join(texts) + caplog.text


def test_round_numbers_for_axes():
    assert ticks(3.0, 3.0)[0] <= 3.0 <= ticks(3.0, 3.0)[-1]
    assert all(3 <= len(ticks(low, high)) <= 9 for low, high in ((0.0, 1.0), (-3e-7, 4e-7), (1e6, 1.1e6), (1.0, 200.0)))


CONFIG = """
[model]
name = "linear_gaussian"
numbers = { r = 0.5 }
[filter]
algorithm = "sir_filter"
particles = 8
room = 10
[log]
kind = "files"
path = "LOG"
[store]
path = "STORE"
[rules]
reorder = 2
[http]
port = 0
"""


def configured(tmp_path, change=("", "")):
    (tmp_path / "log").mkdir(exist_ok=True)
    text = CONFIG.replace(*change).replace("LOG", str(tmp_path / "log")).replace("STORE", str(tmp_path / "store"))
    (tmp_path / "config.toml").write_text(text)
    return read_configuration(tmp_path / "config.toml")


def test_a_configuration_makes_a_worker(tmp_path):
    configuration = configured(tmp_path)
    assert isinstance(configuration, Configuration) and configuration.http == Http(port=0)
    worker = configuration.make_worker()
    assert worker.rules.reorder == 2 and worker.residents.room == 10 and worker.residents.columns[0] == "mean:phi"
    worker.close()


def test_without_an_algorithm_the_model_decides(tmp_path):
    configuration = configured(tmp_path, ('algorithm = "sir_filter"\nparticles = 8', "num_kept = 32"))
    residents = configuration.make_worker().residents
    chosen = pf.auto_filter(residents.filter.model)
    assert configuration.algorithm == "node_filter" and type(residents.filter) is type(chosen)
    assert residents.filter.size == chosen.size and residents.filter.num_kept == 32


def test_a_model_whose_state_jumps_has_the_filter_that_is_chosen_for_it(tmp_path):
    text = '[model]\nname = "cauchy_ar1"\n[filter]\nparticles = 8\nroom = 4\n'
    configuration = configured(tmp_path, (CONFIG[: CONFIG.index("[log]")], text))
    filter = configuration.make_worker().residents.filter
    assert configuration.algorithm == "auto_filter" and isinstance(filter, pf.ParticleFilter)
    assert isinstance(filter.belief, pf.particles.Grid) and filter.size == 8


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("particles = 8", "num_kept = 32"), "num_kept is for node_filter.*sir_filter"),
        (("linear_gaussian", "os.system"), "no model 'os.system'.*linear_gaussian"),
        (("linear_gaussian", "__import__"), "no model"),
        (("r = 0.5", "r = 'dist.Normal(0, 1)'"), "numbers"),
        (("r = 0.5", "s = 0.5"), r"\[model\] does not fit"),
        (("sir_filter", "choose_belief"), "no algorithm"),
        (('kind = "files"', 'kind = "pickle"'), "no kind of log"),
        (("room = 10", "rooms = 10"), r"\[filter\] does not fit"),
        (("[rules]", "[laws]"), "sections.*laws"),
        (("reorder = 2", "reorder = -2"), "0 or more"),
        (("port = 0", 'host = "0.0.0.0"'), "not loopback.*token_file"),
        (("[model]", "[model"), "not a readable configuration"),
        (('[store]\npath = "STORE"', ""), "store"),
    ],
)
def test_a_configuration_that_says_what_it_should_not_is_refused(tmp_path, change, words):
    with pytest.raises(pf.errors.DataError, match=words):
        configured(tmp_path, change).make_worker()


def test_a_short_token_is_refused(tmp_path):
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(pf.errors.DataError, match="at least 16"):
        Http("0.0.0.0", 80, str(tmp_path / "token")).token()
    (tmp_path / "token").write_bytes(TOKEN + b"\n")
    assert Http("0.0.0.0", 80, str(tmp_path / "token")).token() == TOKEN


def test_figures_that_are_not_finite_are_null(worker):
    from paramfilter_streams.serving.front import _plain

    assert json.dumps(_plain({"figures": {"ess": float("-inf"), "mean": 1.0, "sd": float("nan")}})) == (
        '{"figures": {"ess": null, "mean": 1.0, "sd": null}}'
    )

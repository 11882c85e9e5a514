"""The page "A running fleet in ten minutes" is true, and the fleet can be killed while it works."""

import json
import re
import signal
import time
from pathlib import Path

import pytest
from tests.support.streams.server import NatsServer, outputs
from tests.support.streams.service import Forked, Service, commanded, records

PAGE = (Path(__file__).parents[2] / "docs" / "running-fleet.md").read_text()
NUM_EVENTS = 2001


def block(language: str) -> str:
    """Return the page's block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        code = compile(block("python").replace("nats://127.0.0.1:4222", server.address), "running-fleet.md", "exec")
        exec(code, {"__name__": "page"})  # noqa: S102
        yield server


def fleet(server: NatsServer, folder: Path, launch=commanded, subject: str = "posteriors") -> Service:
    config = block("toml").replace("nats://127.0.0.1:4222", server.address).replace("8080", "{port}")
    return Service(folder, config.replace('subject = "posteriors"', f'subject = "{subject}"'), launch)


def wait_until(is_so):
    while not is_so():
        time.sleep(0.05)


@pytest.mark.slow
def test_the_page_runs_and_a_fleet_that_is_killed_ends_with_the_same_bits(server, tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "compiled"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    server.make_streams({"again": ["again"]})
    with fleet(server, tmp_path / "calm") as calm, fleet(server, tmp_path / "killed", Forked, "again") as killed:
        calm.start()
        wait_until(lambda: calm.has_received(NUM_EVENTS))
        wait_until(lambda: '"sequence":100,' in (calm.ask("/posterior/sensor-7") or ""))
        said = json.loads(calm.ask("/posterior/sensor-7") or "")
        assert said["series"] == "sensor-7" and 0 < said["posteriors"][0]["figures"]["sd:phi"] < 0.2
        assert re.search(r'fate="applied".*} 2000', calm.ask("/metrics") or "") and "sensor-7" in (calm.ask("/") or "")
        calm.finish(NUM_EVENTS)

        killed.start()
        wait_until(lambda: re.search(r'fate="applied".*} [1-9]', killed.ask("/metrics") or ""))
        killed.end(signal.SIGKILL)  # once here; hundreds of times by `python -m benchmarks.streams.real_kills`
        killed.start()
        killed.finish(NUM_EVENTS)
    assert records(tmp_path / "killed" / "store") == records(tmp_path / "calm" / "store")
    said = {line for message in server.read_all("again", "again") for line in message.split(b"\n")}
    assert said == outputs(server, "posteriors") and len(said) == 2000


EARLY = """
[model]
name = "linear_gaussian"
[filter]
algorithm = "sir_filter"
particles = 8
room = 10
[log]
kind = "jetstream"
servers = "SERVER"
stream = "late"
subjects = ["late.0"]
[store]
path = "store"
[http]
port = {port}
"""


@pytest.mark.slow
def test_the_front_answers_before_the_log_does(tmp_path):
    late = NatsServer(tmp_path / "nats")
    with Service(tmp_path / "early", EARLY.replace("SERVER", late.address), Forked) as early:
        early.process = early._launch(early.folder)
        wait_until(lambda: early.ask("/health") is not None)
        wait_until(lambda: "waiting for the log" in (early.ask("/") or ""))
        assert early.ask("/ready") is None and "paramfilter_ready 0.0" in (early.ask("/metrics") or "")
        with late:
            late.make_streams({"late": ["late.*"]})
            late.publish("late.0", [b'{"series": "a", "seq": 1, "y": 0.5}'])
            wait_until(lambda: early.ask("/ready") is not None)
            early.finish(1)

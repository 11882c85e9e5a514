"""A worker that is a Ray actor dies, is started again by Ray, and ends with the same bits."""

import os
import signal
import time

import pytest
import ray
from tests.support.streams.toy import HashResidents, messy_lines

from paramfilter_streams import FileLog, Pace, Rules, Store, Worker
from paramfilter_streams.actors import start_owners

LINES = messy_lines(seed=6, num_series=6, num_steps=80)


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("RAY_worker_niceness", "0")  # others may be running tests
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    yield
    ray.shutdown()


def make_worker(folder):
    residents = HashResidents()
    store = Store(folder / "store", residents.identity, walk_first=False)
    return Worker(residents, FileLog(folder / "log"), store, rules=Rules(reorder=3), pace=Pace(8, 0.0, 0.01))


def append(folder, lines):
    (folder / "log").mkdir(parents=True, exist_ok=True)
    with (folder / "log" / "0.jsonl").open("ab") as file:
        file.writelines(one + b"\n" for one in lines)


def held(folder):
    """Return all that a store holds."""
    store = Store(folder / "store", HashResidents().identity)
    rows = [(name, repr(ledger), state) for name, ledger, state in store.rows()]
    counts = {name: vars(one) | {"source": ""} for name, one in store.partitions().items()}  # not the same file
    found = rows, counts, store.quarantined()
    store.close()
    return found


def wait_for(owner, num_events):
    """Wait until so many events have been taken in, by whichever process it is now."""
    while sum(one.received for one in ray.get(owner.partitions.remote()).values()) < num_events:
        time.sleep(0.01)


@pytest.mark.slow
def test_an_actor_that_is_killed_goes_on_with_the_same_bits(cluster, tmp_path):
    append(tmp_path / "calm", LINES)
    calm = make_worker(tmp_path / "calm")
    calm.run(lambda: False, until_idle=True)
    calm.close()

    half = len(LINES) // 2
    append(tmp_path / "killed", LINES[:half])
    (owner,) = start_owners(make_worker, [tmp_path / "killed"])
    result = owner.run.remote()
    wait_for(owner, half // 2)
    before = ray.get(owner.process.remote())
    os.kill(before, signal.SIGKILL)
    append(tmp_path / "killed", LINES[half:])
    wait_for(owner, len(LINES))
    assert ray.get(owner.process.remote()) != before
    owner.stop.remote()
    assert ray.get(result)["."].received == len(LINES)
    ray.get(owner.close.remote())
    assert held(tmp_path / "killed") == held(tmp_path / "calm")

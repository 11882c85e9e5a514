"""A store goes on with another model: what was learned is the prior of each series, and each event counts once."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.support.streams.toy import line
from typer.testing import CliRunner

import paramfilter as pf
from paramfilter.errors import DataError, ModelError
from paramfilter_streams import FileLog, FleetResidents, Rules, Store, Worker
from paramfilter_streams.commands import app
from paramfilter_streams.migrating import migrate, posterior_as_prior
from paramfilter_streams.serving.configuration import read_configuration

NAMES, HALF, LAST = ["a", "b", "c"], 40, 50


def model(**numbers):
    return pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), **numbers)


OLD = FleetResidents(pf.storvik_filter(model(r=0.5), 64), room=16, seed=1, largest_batch=16)
NEW = FleetResidents(pf.node_filter(model(r=0.7), 16, num_kept=64), room=16, seed=1, largest_batch=16)
YS = {
    name: np.asarray(pf.simulate(jax.random.key(number), model(r=0.5), {"phi": 0.4 * number}, LAST)[1])
    for number, name in enumerate(NAMES)
}


def send(folder, first, last, *more):
    (folder / "log").mkdir(exist_ok=True)
    with (folder / "log" / "1.jsonl").open("ab") as file:
        some = [line(name, step, float(YS[name][step - 1])) for step in range(first, last + 1) for name in NAMES]
        file.writelines(one + b"\n" for one in [*some, *more])


def work(folder, name, residents):
    """Read on; return the last posteriors, the partition and the rows."""
    residents.drop(list(residents.names))
    store = Store(folder / name, residents.identity, walk_first=False)
    worker = Worker(residents, FileLog(folder / "log"), store, rules=Rules(reorder=2))
    try:
        worker.run(lambda: False, until_idle=True)
        return {one: worker.latest(one)[-1] for one in NAMES}, worker.committed["."], list(store.rows())
    finally:
        worker.close()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A store after half of the log, with an event that waits and one in quarantine."""
    folder = tmp_path_factory.mktemp("old")
    send(folder, 1, HALF, b"no event", line("a", HALF + 3, 0.25))
    return folder, *work(folder, "store", OLD)


@pytest.mark.slow
def test_what_was_learned_becomes_the_prior_and_the_stream_goes_on(stopped, tmp_path):
    folder, learned, before, rows = stopped
    assert migrate(folder / "store", tmp_path / "store", OLD, NEW) == len(NAMES)
    store = Store(tmp_path / "store", NEW.identity)
    after = list(store.rows())
    assert [(name, repr(ledger)) for name, ledger, _ in after] == [(name, repr(ledger)) for name, ledger, _ in rows]
    assert store.partitions()["."] == before and len(store.quarantined()) == 1
    for name, _, row in after:
        posterior = NEW.filter.posterior(NEW.unpacked(row))
        figures = learned[name].figures
        # 64 particles and 1000 draws: the mean is known to 0.04 sd, the sd to 3 %. Tolerances are 8 and 9 of these.
        assert abs(float(posterior.mean()["phi"]) - figures["mean:phi"]) < 0.3 * figures["sd:phi"]
        assert float(posterior.sd()["phi"]) == pytest.approx(figures["sd:phi"], rel=0.3)
    store.close()
    (tmp_path / "log").symlink_to(folder / "log")
    send(folder, HALF + 1, HALF + 2)
    send(folder, HALF + 4, LAST)
    found, partition, _ = work(tmp_path, "store", NEW)
    assert [one.sequence for one in found.values()] == [LAST] * 3
    assert partition.counts["applied"] == 3 * LAST - 2 and partition.filled == 2 and partition.waiting == 0
    assert partition.counts["quarantined"] == 1 and partition.counts["duplicate"] == 0
    with pytest.raises(DataError, match="has been used"):
        migrate(folder / "store", tmp_path / "store", OLD, NEW)


def test_a_function_can_make_the_new_state(stopped, tmp_path):
    folder, *_ = stopped
    seen = {}

    def shifted(series):
        seen[series.name] = series.num_steps
        if series.name == "b":
            return None
        return series.start

    migrate(folder / "store", tmp_path / "store", OLD, NEW, shifted)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "0.jsonl").touch()
    store = Store(tmp_path / "store", NEW.identity)
    states = {name: state for name, _, state in store.rows()}
    store.close()
    assert seen == dict.fromkeys(NAMES, HALF) and states["b"] == b""
    NEW.drop(list(NEW.names))
    worker = Worker(NEW, FileLog(tmp_path / "log"), Store(tmp_path / "store", NEW.identity, walk_first=False))
    worker.recover()
    worker.close()
    one, other = (NEW.filter.posterior(NEW.one(name)).sd()["phi"] for name in ("a", "b"))
    assert one == pytest.approx(other, rel=0.05), "both start from the prior; their 16 nodes differ"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda series: series.old_state, "another structure, or another filter"),
        (lambda series: jnp.zeros(3), "another structure"),
        (lambda series: jax.tree.map(lambda leaf: leaf[None], series.start), "has shape"),
        (lambda series: 1 / 0, "division"),
    ],
)
def test_what_is_no_state_of_the_new_filter_is_refused(stopped, tmp_path, function, words):
    with pytest.raises((DataError, ZeroDivisionError), match=words):
        migrate(stopped[0] / "store", tmp_path / "store", OLD, NEW, function)
    store = Store(tmp_path / "store", NEW.identity)
    assert not store.partitions() and not store.series(), "nothing was written"
    store.close()
    migrate(stopped[0] / "store", tmp_path / "store", OLD, NEW, lambda series: series.start)


def test_a_posterior_without_spread_is_no_prior(stopped, tmp_path):
    """Such as that of particles that all come from one."""

    def collapsed(series):
        one = {"phi": np.zeros(1000)}
        object.__setattr__(series, "posterior", type("One", (), {"sample": lambda *_: one})())
        return posterior_as_prior(series)

    with pytest.raises(DataError, match="have no spread"):
        migrate(stopped[0] / "store", tmp_path / "store", OLD, NEW, collapsed)


def test_a_particle_filter_needs_a_function(stopped, tmp_path):
    with pytest.raises(ModelError, match="needs a node filter"):
        migrate(stopped[0] / "store", tmp_path / "store", OLD, OLD, posterior_as_prior)


FLEET = """
[model]
name = "linear_gaussian"
numbers = {{ r = {r} }}
[filter]
algorithm = "sir_filter"
particles = 16
room = 16
[log]
kind = "files"
path = "log"
[store]
path = "{store}"
"""


@pytest.mark.slow
def test_the_command_runs_a_function_of_the_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.toml").write_text(FLEET.format(r=0.5, store="old"))
    (tmp_path / "new.toml").write_text(FLEET.format(r=0.7, store="new"))
    (tmp_path / "from_old_to_new.py").write_text("def keep_nothing(series):\n    return series.start\n")
    send(tmp_path, 1, 2)
    worker = read_configuration(tmp_path / "old.toml").make_worker()
    worker.run(lambda: False, until_idle=True)
    worker.close()
    arguments = ["migrate", "old.toml", "new.toml", "--with", "from_old_to_new:keep_nothing"]
    said = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert said.stdout == "3 series migrated\n"
    worker = read_configuration(tmp_path / "new.toml").make_worker()
    assert worker.store.partitions()["."].counts["applied"] == 6
    worker.close()

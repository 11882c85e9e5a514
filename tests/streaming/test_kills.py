"""The harness that kills workers finds nothing wrong with ours, and does find what is planted."""

import json
import subprocess
import sys

import pytest
from tests.support.streams.kills import OffsetFirst
from tests.support.streams.toy import HashResidents, messy_lines

from paramfilter_streams import FileLog, Pace, Store, Worker
from paramfilter_streams.records import Commit


@pytest.mark.slow
@pytest.mark.parametrize("planted", ["nothing", "lost-disks"])
def test_kills_at_random_moments_change_nothing(planted):
    """A few here; ten thousand by `python -m benchmarks.streams.kills`. Each lock on a store dies with its owner."""
    program = "import json, sys; from tests.support.streams.kills import run; print(json.dumps(run(4, sys.argv[1])))"
    done = subprocess.run([sys.executable, "-c", program, planted], capture_output=True, text=True, check=True)
    row = json.loads(done.stdout)
    assert row["kills"] >= 4 and row["trials_that_differ"] == 0


class Killed(BaseException):
    pass


class DyingStore(Store):
    """Dies at one of its commits, before anything of that is written."""

    commits, dies_at = 0, 2

    def commit(self, commit: Commit) -> None:
        self.commits += 1
        if self.commits == self.dies_at:
            raise Killed
        super().commit(commit)


class DyingOffsetFirst(OffsetFirst, DyingStore):
    """The same, with every commit in two parts: the fourth is the states of the second."""

    dies_at = 4


@pytest.mark.parametrize(("kind", "is_right"), [(DyingStore, True), (DyingOffsetFirst, False)])
def test_offsets_before_states_are_seen(tmp_path, kind, is_right):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "0.jsonl").write_bytes(b"\n".join(messy_lines(5, 4, 40)) + b"\n")

    def work(path, kind):
        residents = HashResidents()
        worker = Worker(residents, FileLog(tmp_path / "log"), kind(path, residents.identity), pace=Pace(20))
        try:
            worker.run(lambda: False, until_idle=True)
            return [(name, state) for name, _, state in worker.store.rows()]
        finally:
            worker.close()

    wanted = work(tmp_path / "calm", Store)
    with pytest.raises(Killed):
        work(tmp_path / "killed", kind)
    assert (work(tmp_path / "killed", Store) == wanted) == is_right

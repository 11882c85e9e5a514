"""A disk without room is waited for. The kernel's own: a small tmpfs, in a namespace where a test may mount one."""

import json
import shutil
import subprocess
import sys

import pytest

ALONE = ["unshare", "--map-root-user", "--mount"]


def _may_mount() -> bool:
    return shutil.which("unshare") is not None and subprocess.run([*ALONE, "true"], check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not _may_mount(), reason="no file system can be mounted here")
def test_a_full_disk_is_waited_for():
    """A few times here; hundreds, and disks that fail, by `python -m benchmarks.streams.disks`."""
    program = "import json; from tests.support.streams.disks import run; print(json.dumps(run(2, 'full')))"
    done = subprocess.run([*ALONE, sys.executable, "-c", program], capture_output=True, text=True, check=True)
    row = json.loads(done.stdout)
    assert row["faults_waited_for"] >= 2 and row["faults_that_ended_a_worker"] == row["logs_that_differ"] == 0

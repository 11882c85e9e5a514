"""Disks that are full or fail under a worker (as root, on Linux).

Each kind of disk is a real file system of the kernel's that breaks at random moments and is mended again:

- *full*: a tmpfs with no room left. Writing fails with ENOSPC.
- *thin*: ext4 on a loop device whose backing file has no room left. Writing goes well, and syncing fails with ENOSPC.
- *failing*: ext4 on a compressed block device in memory (zram) that takes no more. Syncing fails with EIO.

A full disk is waited for: the worker goes on when there is room. After any other error it ends, the file system is
unmounted and mounted, so that nothing but what is on the disk counts, and another worker takes over. In the end
everything is compared with a run on a disk that never fails, and at each fault the log must have heard of nothing that
is not there.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from paramfilter.errors import StoreError
from paramfilter_streams import Store
from tests.support.streams.draws import numbers
from tests.support.streams.kills import MEMORY, has_lost, opened, work, write_log

BATCHES_A_FAULT = 3
"""Batches that pass between two faults, on average."""

LARGEST_ROOM = 8 * 1024
"""Bytes that may still be free on a disk that is about to be full."""

DISK_BYTES = 48 << 20

WAITED, ENDED = "faults_waited_for", "faults_that_ended_a_worker"

ZRAM = Path("/sys/class/zram-control")


def call(*command: str | Path) -> None:
    subprocess.run(list(map(str, command)), check=True, capture_output=True)


class Full:
    """A file system in memory, with no room left while it is broken.

    Args:
        path: Where it is mounted.
        bytes: How much it holds.
    """

    def __init__(self, path: Path, bytes: int = DISK_BYTES):
        self.path, self.bytes = path, bytes

    def __enter__(self) -> Full:
        self.path.mkdir(parents=True)
        call("mount", "-t", "tmpfs", "-o", f"size={self.bytes}", "tmpfs", self.path)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        call("umount", "--lazy", self.path)

    def fail(self, room: int) -> None:
        """Leave so many bytes free, or fewer if the worker takes some at this moment."""
        filler = max(0, shutil.disk_usage(self.path).free - room)
        with contextlib.suppress(OSError), (self.path / "filler").open("ab", buffering=0) as file:
            file.write(bytes(filler))

    def mend(self) -> None:
        (self.path / "filler").unlink(missing_ok=True)

    def remount(self) -> None:
        """Do nothing: what is in memory is all that there is."""


class Thin:
    """A file system on a block device that promises more than it has, while it is broken.

    Args:
        path: Where it is mounted.
    """

    def __init__(self, path: Path):
        self.path, self.below = path, Full(path.with_name("below"))
        self.image = self.below.path / "image"

    def __enter__(self) -> Thin:
        self.path.mkdir(parents=True)
        self.below.__enter__()
        with self.image.open("wb") as file:
            file.truncate(2 * DISK_BYTES)
        call("mkfs.ext4", "-q", "-F", self.image)
        call("mount", "-o", "loop", self.image, self.path)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        call("umount", "--lazy", self.path)
        self.below.__exit__(kind, error, trace)

    def fail(self, room: int) -> None:
        self.below.fail(room)

    def mend(self) -> None:
        self.below.mend()

    def remount(self) -> None:
        call("umount", self.path)
        call("mount", "-o", "loop", self.image, self.path)


class Failing:
    """A file system on a block device that takes no more, while it is broken.

    Args:
        path: Where it is mounted.
    """

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> Failing:
        self.path.mkdir(parents=True)
        self.number = (ZRAM / "hot_add").read_text().strip()
        self.device, self.controls = Path(f"/dev/zram{self.number}"), Path(f"/sys/block/zram{self.number}")
        (self.controls / "disksize").write_text(str(DISK_BYTES))
        call("mkfs.ext4", "-q", "-F", self.device)
        call("mount", self.device, self.path)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        call("umount", "--lazy", self.path)
        (self.controls / "reset").write_text("1")
        (ZRAM / "hot_remove").write_text(self.number)

    def fail(self, room: int) -> None:
        used = int((self.controls / "mm_stat").read_text().split()[2])
        (self.controls / "mem_limit").write_text(str(used + room))

    def mend(self) -> None:
        (self.controls / "mem_limit").write_text("0")

    def remount(self) -> None:
        call("umount", self.path)
        call("mount", self.device, self.path)


DISKS: dict[str, type[Full | Thin | Failing]] = {"full": Full, "thin": Thin, "failing": Failing}


def trial(folder: Path, seed: int, disk: Full | Thin | Failing) -> tuple[dict[str, int], list[str]]:
    """Go through one log on a disk that breaks; return how many faults there were of each sort, and what differs.

    Args:
        folder: Where the log is; the disk is mounted where its store will be.
        seed: Of the events and of the faults.
        disk: The disk.
    """
    wanted = work(folder / "calm", Store)
    draw, faults, lost = iter(numbers(seed + 2**33)), {WAITED: 0, ENDED: 0}, False
    worker = opened(folder / "tried", Store)
    worker.recover()
    is_over = False
    while not is_over:
        if not next(draw) % BATCHES_A_FAULT:
            disk.fail(next(draw) % LARGEST_ROOM)
        try:
            is_over = not worker.work_once() and not worker.cannot_commit
            if is_over:
                disk.mend()
                worker.commit()
        except StoreError:
            faults[ENDED] += 1
            worker.close()
            disk.mend()
            disk.remount()
            lost |= has_lost(folder / "tried")
            worker, is_over = opened(folder / "tried", Store), False
            worker.recover()
        if worker.cannot_commit:
            faults[WAITED] += 1
            disk.mend()
    worker.close()
    disk.remount()
    found = work(folder / "tried", Store)  # all is done by now, so this takes in nothing
    return faults, ["acknowledged but lost"] * lost + [name for name in wanted if found[name] != wanted[name]]


def run(num_faults: int, kind: str) -> dict:
    """Let a disk fail so many times, and count what differed."""
    faults = {WAITED: 0, ENDED: 0}
    trials = bad = 0
    began = time.perf_counter()
    while sum(faults.values()) < num_faults:
        folder = Path(tempfile.mkdtemp(prefix="disks-", dir=MEMORY))
        for name in ("calm", "tried"):
            write_log(folder / name, trials)
        try:
            with DISKS[kind](folder / "tried" / "store") as disk:
                more, differing = trial(folder, trials, disk)
        finally:
            shutil.rmtree(folder)
        trials, bad = trials + 1, bad + bool(differing)
        faults = {one: count + more[one] for one, count in faults.items()}
    seconds = round(time.perf_counter() - began)
    return {"disk": kind, **faults, "logs": trials, "logs_that_differ": bad, "seconds": seconds}

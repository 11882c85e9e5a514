"""What a process and all that it starts take: CPU seconds and memory, read from /proc by a thread now and then."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Footprint:
    """Watch this process and its descendants while a block of code runs.

    Attributes:
        cpu_seconds: User and system time of all of them in the block.
        peak_megabytes: The largest sum of their resident memory; shared pages count for each.
        largest_megabytes: The largest of any one of them.
    """

    def __init__(self, seconds_between_looks: float = 0.5):
        self.seconds = seconds_between_looks
        self.peak_megabytes = self.largest_megabytes = 0.0
        self._ticks: dict[int, tuple[int, int]] = {}
        self._names: dict[int, str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Footprint:
        self.look()
        self._ticks = {pid: (now, now) for pid, (_, now) in self._ticks.items()}
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self.look()

    @property
    def cpu_seconds(self) -> float:
        return sum(now - before for before, now in self._ticks.values()) / TICKS

    def cpu_by_name(self) -> dict[str, float]:
        """Return the CPU seconds of the processes of each name, of those that have ended too."""
        spent = dict.fromkeys(self._names.values(), 0.0)
        for pid, (before, now) in self._ticks.items():
            spent[self._names[pid]] += (now - before) / TICKS
        return spent

    def _watch(self) -> None:
        while not self._ended.wait(self.seconds):
            self.look()

    def look(self) -> None:
        """Read what the processes have used by now."""
        parents, ticks, sizes, names = {}, {}, {}, {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    head, _, tail = (entry / "stat").read_text().rpartition(")")
                except (FileNotFoundError, ProcessLookupError):
                    continue  # it has just ended
                pid, fields = int(entry.name), tail.split()
                names[pid] = head.partition("(")[2]
                parents[pid] = int(fields[1])
                ticks[pid], sizes[pid] = int(fields[11]) + int(fields[12]), int(fields[21]) * PAGE / 2**20
        mine = [pid for pid in parents if _descends(pid, parents)]
        for pid in mine:
            self._ticks[pid] = (self._ticks.get(pid, (0, 0))[0], ticks[pid])
            self._names[pid] = names[pid]
        self.peak_megabytes = max(self.peak_megabytes, sum(sizes[pid] for pid in mine))
        self.largest_megabytes = max(self.largest_megabytes, *(sizes[pid] for pid in mine))


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid == os.getpid():
            return True
        pid = parents[pid]
    return False

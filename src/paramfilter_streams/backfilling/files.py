"""Posteriors of very many series from Parquet files: a file in, a file out, and what is done stays done.

Each source file holds whole series (`share_out` makes such files). Workers take one file after the other through a
compiled fleet: in this process, or in Ray actors on as many cores or machines as Ray has. Whoever starts the same call
again goes on where the last one ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from paramfilter.errors import DataError, extra
from paramfilter.particles import ParticleFilter
from paramfilter_streams.backfilling.worker import EXTRA, Columns, Worker, signature_of

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
"""How XLA is told to leave the other cores to the other workers."""


@dataclass(frozen=True)
class BackfillReport:
    """What a call of `backfill` did.

    Attributes:
        num_files: Files done now.
        num_done_before: Files that an earlier call had done.
        num_series: Series in the files done now.
        num_observations: Observations in them.
        seconds: How long it took, compiling included.
    """

    num_files: int
    num_done_before: int
    num_series: int
    num_observations: int
    seconds: float


@dataclass(frozen=True)
class _Job:
    source: Path
    target: Path
    states: tuple[Path | None, Path | None]


def backfill(
    make_filter: Callable[[], ParticleFilter],
    source: str | os.PathLike,
    target: str | os.PathLike,
    *,
    seed: int = 0,
    columns: Columns = Columns(),
    num_workers: int = 1,
    start_from: str | os.PathLike | None = None,
    keep_states: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> BackfillReport:
    """Run one filter for each series in a directory of Parquet files, and write a table of posteriors for each file.

    Args:
        make_filter: Makes the filter, once in each worker.
        source: A Parquet file, or a directory of files that hold whole series; see `share_out`.
        target: A directory; files of the same names appear here. What is here already is not done again.
        seed: Of all random numbers; a series' own come from it and from its id.
        columns: Where things stand in the tables.
        num_workers: 1 works in this process; more are Ray actors, each with one thread.
        start_from: A directory of states that an earlier call kept: go on from those instead of from the prior.
        keep_states: A directory for the states after the last observation, one file of them for each table.
        progress: Show a bar; None shows it on a terminal only.
    """
    files = _files(Path(source))
    places = [None if place is None else Path(place) for place in (start_from, keep_states)]
    for place in (Path(target), places[1]):
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
    jobs = [_Job(file, Path(target) / file.name, _states_of(file, *places)) for file in files]
    worker = Worker(make_filter(), seed, columns)
    todo = [job for job in jobs if not _is_done(job.target, worker.signature)]
    counts, began = [], time.perf_counter()
    with tqdm(total=len(todo), unit="file", disable=None if progress is None else not progress) as bar:
        if num_workers == 1:
            done = (worker.work(job.source, job.target, job.states) for job in todo)
        else:
            done = _by_actors(make_filter, seed, columns, todo, num_workers)
        for num_series, num_observations in done:
            counts.append((num_series, num_observations))
            bar.update()
            rate = sum(count[1] for count in counts) / (time.perf_counter() - began)
            bar.set_postfix_str(f"{rate:,.0f} observations/s", refresh=False)
    totals = [sum(column) for column in zip(*counts, strict=True)] or [0, 0]
    return BackfillReport(len(todo), len(jobs) - len(todo), *totals, seconds=time.perf_counter() - began)


def _by_actors(
    make_filter: Callable[[], ParticleFilter], seed: int, columns: Columns, jobs: list[_Job], num_workers: int
) -> Iterator[tuple[int, int]]:
    """Let Ray actors take jobs as they become free."""
    ray = extra("ray", EXTRA)
    own_ray = not ray.is_initialized()
    if own_ray:
        # A Ray of our own is for this machine alone.
        ray.init(num_cpus=num_workers, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    # max_restarts and max_task_retries: a worker that dies is started again, and its file is done again.
    actor = ray.remote(num_cpus=1, max_restarts=3, max_task_retries=3)(_Actor)
    flags = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}".strip()
    alone = {"env_vars": {"XLA_FLAGS": flags, "OMP_NUM_THREADS": "1"}}
    actors = [actor.options(runtime_env=alone).remote(make_filter, seed, columns) for _ in range(num_workers)]
    try:
        yield from extra("ray.util", EXTRA).ActorPool(actors).map_unordered(lambda one, job: one.work.remote(job), jobs)
    finally:
        for one in actors:
            ray.kill(one)
        if own_ray:
            ray.shutdown()


class _Actor:
    """A worker in a process of its own."""

    def __init__(self, make_filter: Callable[[], ParticleFilter], seed: int, columns: Columns):
        self.worker = Worker(make_filter(), seed, columns)

    def work(self, job: _Job) -> tuple[int, int]:
        return self.worker.work(job.source, job.target, job.states)


def _files(source: Path) -> list[Path]:
    files = [source] if source.is_file() else sorted(source.glob("*.parquet"))
    if not files:
        raise DataError(f"there is no Parquet file at {source}.")
    return files


def _states_of(file: Path, began: Path | None, kept: Path | None) -> tuple[Path | None, Path | None]:
    name = f"{file.stem}.safetensors"
    return began and began / name, kept and kept / name


def _is_done(target: Path, signature: dict[str, Any]) -> bool:
    """Tell whether a result is there, and refuse one that something else made."""
    if not target.exists():
        return False
    found = signature_of(target)
    differing = [name for name, value in signature.items() if found.get(name) != value]
    if differing:
        raise DataError(
            f"{target} was made with another {' and '.join(differing)}; give another directory, or delete it."
        )
    return True

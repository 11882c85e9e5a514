"""What the contest has measured, a file for each problem, and how a row is judged.

A row is one algorithm at one size: its answers on all data sets and seeds. Numbers are kept as they were said; errors
are computed from them and from the references, so that a better reference needs no new run.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks.contest import references
from benchmarks.contest.entry import Ladder
from benchmarks.problems import CONTEST
from benchmarks.tables import stored

RESULTS = Path(__file__).parent.parent / "results" / "contest"
LOST = 1000.0
"""The error of a run that ends in NaN, in sds."""
BARS = (0.25, 0.1)
"""The errors that the headlines ask for, in sds."""
WIN = 10.0
"""How many times our CPU seconds a rival needs to have lost."""
GOAL = 12
"""Problems on which that was the goal."""
CLOSE = 1.5
"""A factor that another day or machine may make: measured beside other work, CPU seconds were up to 40 % higher."""
PRESETS = ("node", "storvik")
"""Of ours; the rest that we wrote are yardsticks, and count as rivals."""
NUM_RESAMPLES = 2000
CENTRAL = (5.0, 95.0)
"""Of the bootstrap's errors, in per cent."""

Row = dict[str, Any]
JUDGED: dict[str, tuple[list[Row], list[tuple[Row, Verdict]]]] = {}
"""Rows of problems and their verdicts."""


@contextlib.contextmanager
def kept_apart() -> Iterator[None]:
    """Keep rows in a folder that is thrown away."""
    global RESULTS
    before = RESULTS
    with tempfile.TemporaryDirectory() as folder:
        RESULTS = Path(folder)
        try:
            yield
        finally:
            RESULTS = before


def load(problem: str) -> list[Row]:
    """Return the rows of a problem."""
    return _kept(problem)["rows"]


def default_of(problem: str) -> str | None:
    """Return which of our presets `auto_filter` takes for a problem; None if that was not asked yet."""
    return _kept(problem)["default"]


def _kept(problem: str) -> dict[str, Any]:
    path = RESULTS / f"{problem}.json"
    return {"default": None, "rows": []} | (stored(path) if path.exists() else {})


def put_default(problem: str, algorithm: str) -> None:
    """Write which of our presets `auto_filter` takes."""
    _keep(problem, default=algorithm)


def find(rows: list[Row], library: str, algorithm: str, size: dict[str, int]) -> Row | None:
    """Return the row of one algorithm at one size."""
    wanted = (library, algorithm, size)
    return next((row for row in rows if (row["library"], row["algorithm"], row["size"]) == wanted), None)


def put(problem: str, row: Row) -> None:
    """Write a row in place of the one that was there."""
    others = [one for one in load(problem) if find([one], row["library"], row["algorithm"], row["size"]) is None]
    _keep(problem, rows=[*others, row])


def _keep(problem: str, **parts: Any) -> None:
    content = {"problem": problem, "times": CONTEST[problem].times, **_kept(problem), **parts}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{problem}.json").write_text(json.dumps(content) + "\n")


@dataclass(frozen=True)
class Verdict:
    """How one algorithm at one size did; arrays have an entry for each time.

    Attributes:
        error: Root mean square error of the mean, in sds of the reference.
        interval: Where the error at the end lies with 90 % probability, by bootstrap over runs.
        log_sd_error: Root mean square of log(sd / reference sd); NaN without an sd.
        cover: The reference's probability inside the central 90 % interval, on average; NaN without an sd.
        cpu_seconds: For the whole stream, the median over runs, compiled.
        cpu_seconds_first: Of the first run, compiling included.
        spread: Least and largest CPU seconds.
        peak_mb: Of memory.
        num_runs: Behind all this.
    """

    error: np.ndarray
    interval: tuple[float, float]
    log_sd_error: np.ndarray
    cover: np.ndarray
    cpu_seconds: float
    cpu_seconds_first: float
    spread: tuple[float, float]
    peak_mb: float
    num_runs: int
    over_budget: bool = False

    def reaches(self, bar: float) -> bool:
        """Tell whether the error at the end is small enough, within the budget."""
        return bool(self.error[-1] <= bar) and not self.over_budget


def judge(problem: str, row: Row) -> Verdict:
    """Compare a row with the references; times without one are NaN."""
    known = references.load().get(problem, {})
    each = [np.array(list(_deviations(problem, known, run))) for run in row["runs"]]
    deviations = np.concatenate(each, axis=1)  # time, run and parameter, (error, log ratio)
    errors, ratios = deviations[..., 0], deviations[..., 1]
    seconds = [run["cpu_seconds"] for run in row["runs"]]
    return Verdict(
        error=np.sqrt(np.mean(errors**2, axis=1)),
        interval=bootstrap(np.array([np.mean(run[-1, :, 0] ** 2) for run in each])),
        log_sd_error=np.sqrt(np.mean(ratios**2, axis=1)),
        cover=np.mean(_cover(errors, np.exp(ratios)), axis=1),
        cpu_seconds=float(np.median(seconds)),
        cpu_seconds_first=row.get("cpu_seconds_first", float("nan")),
        spread=(min(seconds), max(seconds)),
        peak_mb=max(run["peak_mb"] for run in row["runs"]),
        num_runs=len(row["runs"]),
        over_budget=row.get("over_budget", False),
    )


def bootstrap(mean_squares: np.ndarray) -> tuple[float, float]:
    """Return the interval of the root mean square, runs being drawn again with replacement.

    >>> bootstrap(np.full(5, 0.04))
    (0.2, 0.2)
    """
    generator = np.random.default_rng(0)  # noqa: TID251  the same numbers each time a page is built
    drawn = generator.choice(mean_squares, (NUM_RESAMPLES, len(mean_squares)))
    low, high = np.percentile(np.sqrt(np.mean(drawn, axis=1)), CENTRAL)
    return float(low), float(high)


def _deviations(problem: str, known: dict[str, Any], run: dict[str, Any]) -> Iterator[np.ndarray]:
    """Yield for each time an array of (error of the mean, log ratio of sds), one row for each scalar parameter."""
    answers = known.get(str(run["data_set"]), {})
    template = next((answer["mean"] for answer in answers.values()), run["mean"][-1])
    times = CONTEST[problem].times
    for place, time in enumerate(times, start=-len(times)):  # who refits is asked at the end only
        answer = answers.get(str(time))
        if answer is None or not answer["admitted"] or len(run["mean"]) < -place:
            yield np.full((_flat(template, template).size, 2), np.nan)
            continue
        mean, sd = run["mean"][place], run["sd"][place]
        right, scale = _flat(answer["mean"], answer["mean"]), _flat(answer["sd"], answer["mean"])
        said = _flat(mean, answer["mean"]) if set(mean) == set(answer["mean"]) else np.full_like(right, np.nan)
        errors = np.nan_to_num((said - right) / scale, nan=LOST, posinf=LOST, neginf=LOST)
        if sd is None or set(sd) != set(answer["mean"]):
            ratios = np.full_like(errors, np.nan)
        else:
            ratios = np.log(np.maximum(_flat(sd, answer["mean"]), 1e-12) / scale)
        yield np.stack([errors, ratios], axis=-1)


def _flat(values: dict[str, Any], names: dict[str, Any]) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(values[name], float)) for name in names])


def _cover(errors: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """Return the mass of N(0, 1) within 1.645 sds `ratios` of `errors`."""
    reach = ndtri(0.95) * ratios
    return ndtr(errors + reach) - ndtr(errors - reach)


def judged(problem: str) -> list[tuple[Row, Verdict]]:
    """Return the rows that were run to their end, each with its verdict, ours first, then the cheapest first.

    They are judged once, as long as they are the same: the page asks for them some hundred times.
    """
    known = load(problem)
    if problem not in JUDGED or JUDGED[problem][0] is not known:
        done = [(row, judge(problem, row)) for row in known if row["runs"] and "failed" not in row]
        JUDGED[problem] = known, sorted(done, key=lambda pair: (pair[0]["library"] != "ours", pair[1].cpu_seconds))
    return JUDGED[problem][1]


def is_of(row: Row, ladder: Ladder) -> bool:
    """Tell whether a row is a rung of a ladder."""
    return (row["library"], row["algorithm"]) == (ladder.library, ladder.algorithm)


def climbed(problem: str, ladder: Ladder) -> list[Verdict]:
    """Return the verdicts of the rungs of a ladder that were run to their end, in its order."""
    done = judged(problem)
    of_rung = (find([row for row, _ in done], ladder.library, ladder.algorithm, size) for size in ladder.rungs)
    return [next(verdict for one, verdict in done if one is row) for row in of_rung if row is not None]


def failures(problem: str) -> list[Row]:
    """Return the rows that say how an algorithm failed."""
    return [row for row in load(problem) if "failed" in row]


def cheapest(
    problem: str, kind: str, bar: float, cost: str = "cpu_seconds", algorithm: str | None = None
) -> tuple[Row, Verdict] | None:
    """Return the cheapest rung of a kind, or of one algorithm of it, that reaches a bar; by a cost of the verdict."""
    good = [
        (row, verdict)
        for row, verdict in judged(problem)
        if verdict.reaches(bar)
        and kind_of(problem, row["library"], row["algorithm"]) == kind
        and algorithm in (None, row["algorithm"])
    ]
    return min(good, key=lambda pair: getattr(pair[1], cost), default=None)


def kind_of(problem: str, library: str, algorithm: str) -> str:
    """Tell our default from our other presets, and both from rivals: other libraries, and yardsticks we wrote."""
    if library != "ours":
        return "rival"
    return "default" if algorithm in ("auto", default_of(problem)) else "preset" if algorithm in PRESETS else "rival"

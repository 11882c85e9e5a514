"""What an entry of the contest declares about itself, in the comment at the top of its file.

The comment is inline script metadata (PEP 723), read without importing the file:

    # /// script
    # dependencies = ["particles==0.4", "numpy<2"]
    #
    # [tool.contest.smc2]
    # num_theta = [100, 200, 400]
    # num_x = [100, 100, 200]
    # ///

A table for each algorithm: its ladder, as lists of the same length, from cheap to expensive; `refits = true` if it
begins anew for each time; `compiles = false` if its first run is not slower than others; `problems` that it is for,
with the `reason` why not for all.
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environments import THIS_PROJECT, python_in

FOLDER = Path(__file__).parent / "entries"
OURS = "ours"
PROJECT = "paramfilter"
BLOCK = re.compile(r"^# /// script\n(?P<content>(?:^#.*\n)+?)^# ///$", re.MULTILINE)
NOT_FACTORS = ("num_warmup",)
"""Sizes that a run's cost does not grow with in proportion."""
NOT_SIZES = ("refits", "compiles", "problems", "reason")


@dataclass(frozen=True)
class Ladder:
    """The rungs of one algorithm, from cheap to expensive.

    Args:
        library: The entry's name.
        algorithm: What its program calls it.
        rungs: Sizes.
        refits: Whether it begins anew for each time.
        compiles: Whether its first run may take much longer than others.
        problems: The problems it is for; None is all.
        reason: Why it is not for the others.
    """

    library: str
    algorithm: str
    rungs: tuple[dict[str, int], ...]
    refits: bool = False
    compiles: bool = True
    problems: tuple[str, ...] | None = None
    reason: str = ""

    def takes(self, problem: str) -> bool:
        """Tell whether the algorithm is for a problem."""
        return self.problems is None or problem in self.problems

    def step_after(self, rung: int) -> float:
        """Return how many times larger the next rung is, all factors of its cost multiplied; 1 after the last."""
        two = (self.rungs[place] for place in (rung, min(rung + 1, len(self.rungs) - 1)))
        now, after = (math.prod(size for name, size in sizes.items() if name not in NOT_FACTORS) for sizes in two)
        return after / now


@dataclass(frozen=True)
class Entry:
    """A library that takes part."""

    name: str
    packages: tuple[str, ...]
    ladders: tuple[Ladder, ...]

    @property
    def module(self) -> str:
        """The program's name."""
        return f"benchmarks.contest.entries.{self.name}"

    def python(self) -> str:
        """Return the interpreter of its environment, which is made if it is not there or was declared otherwise."""
        if self.name == OURS:
            return sys.executable
        digest = hashlib.sha256("\n".join(self.packages).encode()).hexdigest()[:8]
        packages = [part for name in self.packages for part in (THIS_PROJECT if name == PROJECT else (name,))]
        return python_in(f"{self.name}-{digest}", tuple(packages))


def entry(name: str) -> Entry:
    """Read what a file of `entries` declares."""
    found = BLOCK.search((FOLDER / f"{name}.py").read_text())
    if found is None:
        raise ValueError(f"entries/{name}.py has no '# /// script' comment; see benchmarks/contest/entry.py.")
    lines = found["content"].splitlines()
    declared = tomllib.loads("\n".join(line.removeprefix("#").removeprefix(" ") for line in lines))
    tables: dict[str, Any] = declared.get("tool", {}).get("contest", {})
    ladders = tuple(_ladder(name, algorithm, table) for algorithm, table in tables.items())
    return Entry(name, tuple(declared.get("dependencies", ())), ladders)


def _ladder(library: str, algorithm: str, table: dict[str, Any]) -> Ladder:
    sizes = {key: values for key, values in table.items() if key not in NOT_SIZES}
    rungs = tuple(dict(zip(sizes, values, strict=True)) for values in zip(*sizes.values(), strict=True))
    problems = tuple(table["problems"]) if "problems" in table else None
    refits, compiles = table.get("refits", False), table.get("compiles", True)
    return Ladder(library, algorithm, rungs or ({},), refits, compiles, problems, table.get("reason", ""))


def entries() -> dict[str, Entry]:
    """Return all entries, ours first."""
    names = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))
    return {name: entry(name) for name in sorted(names, key=lambda name: name != OURS)}

"""One form for all that a filter is judged on: the problems of this package, and those of `benchmarks.problems`.

The second have names such as `contest/tracking`; their data and references are those of `benchmarks.contest`. Four of
them are recorded series, of packages that `benchmarks.environments` installs with uv.

>>> len(CASES), CASES["contest/tracking"].seeds
(43, (0, 1, 2))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import paramfilter as pf
from benchmarks import problems as contest
from benchmarks.answers import Answer
from benchmarks.contest import references as contest_references
from benchmarks.truth import references
from benchmarks.truth.problem import SEEDS, Problem
from benchmarks.truth.problems import PROBLEMS
from paramfilter.types import Inputs


@dataclass(frozen=True)
class Case:
    """A model with data sets and their exact posteriors.

    Args:
        name: The name of the problem.
        model: Makes the model.
        seeds: The data sets.
        data: Makes observations and inputs of one data set.
        reference: Returns the exact posterior of one data set; None if it is not known well enough.
    """

    name: str
    model: Callable[[], pf.StateSpaceModel]
    seeds: tuple[int, ...]
    data: Callable[[int], tuple[np.ndarray, Inputs]]
    reference: Callable[[int], Answer | None]


def of_truth(problem: Problem) -> Case:
    """Take a problem of this package."""

    def reference(seed):
        return admitted(references.load().get(problem.name, {}).get(str(seed)))

    return Case(problem.name, problem.model, SEEDS, lambda seed: (problem.data(seed), None), reference)


def of_contest(problem: contest.Problem) -> Case:
    """Take a problem of the contest, at its full length."""

    def data(seed):
        return np.asarray(contest.data(problem, seed)[1]), contest.inputs_of(problem)

    def reference(seed):
        known = contest_references.load().get(problem.name, {}).get(str(seed), {})
        return admitted(known.get(str(problem.num_steps)))

    return Case(f"contest/{problem.name}", problem.model, problem.contest_seeds, data, reference)


def admitted(answer: Answer | None) -> Answer | None:
    return answer if answer is not None and answer["admitted"] else None


CASES = {case.name: case for case in (*map(of_truth, PROBLEMS.values()), *map(of_contest, contest.CONTEST.values()))}

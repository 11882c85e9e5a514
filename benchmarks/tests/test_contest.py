"""The contest's arithmetic, and one task answered from end to end, at a small size."""

import numpy as np
import pytest
from benchmarks.contest import references, rows, sentences, table
from benchmarks.contest.entries.ours import ALGORITHMS
from benchmarks.contest.entry import entries, entry
from benchmarks.contest.program import Failed, Program, task_of
from benchmarks.contest.run import FEWEST_RUNS, MOST_RUNS, goes_on, runs_wanted, tasks
from benchmarks.contest.task import answer
from benchmarks.problems import CONTEST, data


def row_of(change):
    """Return a row of one run on `regime_switching` that says what the reference says, with a change."""
    known = references.load()["regime_switching"]["0"]
    at_end = known[str(CONTEST["regime_switching"].times[-1])]
    mean, sd = change(
        {k: np.array(v) for k, v in at_end["mean"].items()}, {k: np.array(v) for k, v in at_end["sd"].items()}
    )
    run = {"data_set": 0, "mean": [mean] * 3, "sd": [sd] * 3, "cpu_seconds": 2.0, "peak_mb": 10.0}
    return {"library": "ours", "algorithm": "node", "size": {}, "runs": [run]}


@pytest.mark.parametrize(
    ("change", "error", "log_sd_error", "cover"),
    [
        (lambda mean, sd: (mean, sd), 0.0, 0.0, 0.9),
        (lambda mean, sd: ({k: mean[k] + 2 * sd[k] for k in mean}, sd), 2.0, 0.0, 0.3612),
        (lambda mean, sd: (mean, {k: sd[k] / 2 for k in sd}), 0.0, np.log(2), 0.5892),
        (lambda mean, sd: ({k: np.nan * mean[k] for k in mean}, sd), rows.LOST, 0.0, 0.0),
        (lambda mean, sd: (mean, None), 0.0, np.nan, np.nan),
    ],
    ids=["right", "two sds off", "twice too sure", "lost", "a point"],
)
def test_what_a_row_is_worth(change, error, log_sd_error, cover):
    """The mass of N(0, 1) between 0.355 and 3.645 is 0.361; within half of 1.645 it is 0.589."""
    found = rows.judge("regime_switching", row_of(change))
    assert found.error[-1] == pytest.approx(error)
    assert found.log_sd_error[-1] == pytest.approx(log_sd_error, nan_ok=True)
    assert found.cover[-1] == pytest.approx(cover, abs=1e-3, nan_ok=True)
    assert found.reaches(0.25) == found.reaches(0.1) == (error <= 0.1)


def test_a_run_that_was_given_up_is_lost_where_there_is_a_reference():
    row = row_of(lambda mean, sd: ({"error": np.nan}, {"error": np.nan}))
    assert rows.judge("regime_switching", row).error[-1] == rows.LOST


def test_references_that_are_used_are_admitted():
    answers = [answer for of_seed in references.load().values() for one in of_seed.values() for answer in one.values()]
    assert len(answers) > 20
    assert all(answer["admitted"] == references.is_admitted(answer) for answer in answers)


SIR_TASK = dict(problem="sin", ys=np.asarray(data(CONTEST["sin"], 0)[1])[:12], times=[4, 12], algorithm="sir")


def test_a_task_is_answered():
    first, second = (answer(task_of(**SIR_TASK, size={"num_particles": 32}, seed=seed), ALGORITHMS) for seed in (0, 1))
    assert [len(first[part]) for part in ("mean", "sd", "log_evidence", "cpu_seconds_of_times")] == [2, 2, 2, 2]
    assert first["mean"][0] != second["mean"][0] and first["error"] is None
    assert first["cpu_seconds"] == pytest.approx(sum(first["cpu_seconds_of_times"]))


def test_a_program_answers_as_often_as_it_is_asked_and_says_how_it_failed():
    with Program(entry("ours")) as program:
        asked = [task_of(**SIR_TASK, size={"num_particles": 32}, seed=seed) for seed in (0, 1, 0)]
        first, second, again = (program.ask(task, 300) for task in asked)
        assert first["mean"] == again["mean"] != second["mean"]
        assert "jax" in program.versions
        with pytest.raises(Failed, match="KeyError"):
            program.ask(task_of("no such problem", [0.0], [1], "sir", {"num_particles": 32}), 300)


def test_every_entry_declares_ladders_that_grow():
    declared = entries()
    assert next(iter(declared)) == "ours" and len(declared) >= 9
    for ladder in (ladder for one in declared.values() for ladder in one.ladders):
        costs = [np.prod(list(rung.values())) for rung in ladder.rungs]
        assert costs == sorted(costs) and len(set(costs)) == len(costs)
        assert ladder.problems is None or (set(ladder.problems) <= set(CONTEST) and ladder.reason)


def verdict_of(error: float, cpu_seconds: float) -> rows.Verdict:
    return rows.Verdict(
        error=np.array([error]),
        interval=(error, error),
        log_sd_error=np.zeros(1),
        cover=np.zeros(1),
        cpu_seconds=cpu_seconds,
        cpu_seconds_first=cpu_seconds,
        spread=(cpu_seconds, cpu_seconds),
        peak_mb=0.0,
        num_runs=5,
    )


@pytest.mark.parametrize(
    ("errors", "cpu_seconds", "step", "worth"),
    [
        ([0.5], 1.0, 3, True),
        ([0.2], 1.0, 3, True),
        ([0.1], 1.0, 3, False),
        ([0.5], 3.4, 3, False),
        ([0.5], 1.4, 10, True),
        ([0.5], 1.6, 10, False),
        ([900.0, 900.0], 1.0, 3, True),
        ([8.0, 9.0, 8.0], 1.0, 3, False),
        ([8.0, 9.0, 7.0], 1.0, 3, True),
        ([np.nan], 0.1, 3, False),
    ],
    ids=["near", "one bar", "both bars", "too expensive", "ten times larger", "too expensive, if so much larger",
         "too early", "stuck", "lower", "no reference"],
)  # fmt: skip
def test_a_ladder_is_climbed_while_the_budget_is_in_reach(errors, cpu_seconds, step, worth):
    """Of 10 CPU seconds."""
    assert goes_on([verdict_of(error, cpu_seconds) for error in errors], step, budget=10.0) is worth


def test_a_ladder_knows_how_much_larger_its_next_rung_is():
    ladder = next(ladder for ladder in entry("pypomp").ladders if ladder.algorithm == "pmcmc")
    assert [ladder.step_after(rung) for rung in range(3)] == pytest.approx([3.0, 100 / 9, 1.0])
    assert entry("dynamax").ladders[0].step_after(0) == 1.0


@pytest.mark.parametrize(
    ("off", "cpu_seconds", "wanted"),
    [
        (2.0, 1.0, FEWEST_RUNS),
        (0.3, 0.9, MOST_RUNS),
        (0.3, 2.0, FEWEST_RUNS),
        (0.06, 0.9, MOST_RUNS),
        (0.01, 1.0, FEWEST_RUNS),
    ],
)
def test_a_rung_near_a_bar_has_more_runs_if_they_are_short(off, cpu_seconds, wanted):
    row = row_of(lambda mean, sd: ({k: mean[k] + off * sd[k] for k in mean}, sd))
    runs = FEWEST_RUNS * [row["runs"][0] | {"cpu_seconds": cpu_seconds}]
    assert runs_wanted(CONTEST["regime_switching"], row | {"runs": runs}) == wanted


def test_runs_take_turns_on_the_data_sets_with_seeds_of_their_own():
    ladder = entry("ours").ladders[0]
    found = [(data_set, task["seed"]) for data_set, task in tasks(CONTEST["sin"], ladder, {})]
    assert len(found) == len({seed for _, seed in found}) == MOST_RUNS
    assert [data_set for data_set, _ in found[:4]] == [0, 1, 2, 0]


def test_the_interval_of_an_error_holds_the_error_and_shrinks_with_runs():
    squares = np.array([0.01, 0.04, 0.09, 0.02, 0.05])
    low, high = rows.bootstrap(squares)
    assert low < np.sqrt(np.mean(squares)) < high
    many_low, many_high = rows.bootstrap(np.tile(squares, 4))
    assert many_high - many_low < 0.7 * (high - low)


def test_what_is_stored_makes_tables_of_even_lines():
    for header, lines in (table.cells(0.25), table.one_more()):
        assert all(len(line) == len(header) for line in lines)
    header, lines = table.all_rows()
    assert lines and all(len(line) == len(header) or line[3] == "failed" for line in lines)
    assert table.report().count("| problem |") == 2 and "of" in sentences.summary()


def test_no_problem_is_won_by_rivals_that_failed_or_were_not_run(monkeypatch):
    ladder = entry("numpyro").ladders[0]
    own = {"library": "numpyro", "algorithm": "nuts", "size": ladder.rungs[0]}
    for stored in ([], [own | {"runs": [], "failed": "TypeError"}]):
        monkeypatch.setattr(rows, "load", lambda problem, stored=stored: stored)
        assert not table.is_finished("regime_switching", 0.25)
        assert table.leads(0.25) == []

"""How right, how honest and how costly each belief is: `python -m benchmarks.beliefs [gibbs|filters|honesty|cost] ...`.

- **gibbs**: the belief given the true states, against the exact density of theta (see `gibbs`), 20 data sets, float64.
- **filters**: the whole filter with the chosen belief, N = 1000, with the paper's loop (bootstrap, one island), with
  the default parts, and with beliefs given the present state, against trusted posteriors (see `references`), 10 data
  sets, float32.
- **honesty**: the error that a belief reports against its true one, over many models, settings and lengths.
- **cost**: an update and a draw against the bare evaluation of the user's log density at as many points, in one run.

Results are kept as JSON in `results/` and shown on the page "Beliefs compared".
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from tests.support import gibbs
from tests.support.judging import last_state

import paramfilter as pf
from benchmarks import references
from benchmarks.mixing import num_ancestors
from benchmarks.models import multispecies, smooth_transition, theta_logistic
from benchmarks.near_observation import NearObservation
from benchmarks.problems import PROBLEMS, SEEDS, Problem, data
from benchmarks.tables import put_row, write_table
from paramfilter.auto import choose_belief
from paramfilter.beliefs import (
    Belief,
    CrossInterpolation,
    Grid,
    TaylorOfLogDensity,
    TaylorOfMean,
)
from paramfilter.errors import BeliefError
from paramfilter.filters import FilterState, NoMixing, StepInfo
from paramfilter.inspect.dependence import ThetaFactors
from paramfilter.models import cauchy_ar1, sin, star, stochastic_volatility
from paramfilter.proposals import Bootstrap

NUM_DATA_SETS = 20
NUM_PARTICLES = 1000
NEAR = "cauchy_ar1, near the observation"
"""The Cauchy problem once more, with a proposal made for it by hand."""

PAPERS_LOOP = {"proposal": Bootstrap(), "num_islands": 1, "mixing": NoMixing()}
PATHS = {"mixing": NoMixing()}


@dataclass(frozen=True)
class Case:
    """A model with known states, and the beliefs to try on it."""

    model: Callable[[], pf.StateSpaceModel]
    truth: dict
    num_steps: int
    beliefs: tuple[Belief, ...]


def _truth(name: str) -> dict:
    return PROBLEMS[name].truth if name in PROBLEMS else importlib.import_module(f"benchmarks.models.{name}").TRUTH


TAYLOR = (TaylorOfMean(7), TaylorOfLogDensity(10))
LOW_ORDER = (TaylorOfMean(3), TaylorOfLogDensity(4))

CASES = {
    "SIN": Case(sin, _truth("sin"), 1024, (Grid(33), CrossInterpolation(), *TAYLOR)),
    "AR(1): phi, q": Case(
        lambda: pf.models.linear_gaussian(q=dist.LogNormal(0.0, 0.5)),
        {"phi": 0.8, "q": 1.0},
        1000,
        (CrossInterpolation(), Grid(), *LOW_ORDER),
    ),
    "stochastic volatility": Case(
        stochastic_volatility, _truth("stochastic_volatility"), 1000, (CrossInterpolation(), *LOW_ORDER[1:])
    ),
    "Cauchy: a": Case(cauchy_ar1, {"a": 0.7}, 1000, (Grid(257), Grid(129), CrossInterpolation(), *TAYLOR[1:])),
    "Cauchy: a, scale": Case(
        lambda: cauchy_ar1(scale=dist.LogNormal(0.0, 0.5)),
        {"a": 0.7, "scale": 1.0},
        1000,
        (Grid(), CrossInterpolation(), *LOW_ORDER[1:]),
    ),
    "STAR: gamma, c": Case(star, _truth("star"), 1000, (CrossInterpolation(), Grid(), TaylorOfMean(5), *LOW_ORDER[1:])),
    "theta-logistic": Case(theta_logistic, _truth("theta_logistic"), 1000, (CrossInterpolation(),)),
    "smooth transition, p = 5": Case(smooth_transition, _truth("smooth_transition"), 500, (CrossInterpolation(),)),
    "multispecies, p = 10": Case(multispecies, _truth("multispecies"), 300, (CrossInterpolation(),)),
}


def statistic_size(belief: pf.beliefs.BoundBelief) -> int:
    """Return how many numbers a particle keeps about theta."""
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(jax.eval_shape(belief.init)))


def gibbs_table(names: list[str] | None = None) -> dict:
    """Judge each belief given the true states; rows of other models are kept as they are."""
    jax.config.update("jax_enable_x64", True)
    for name, case in CASES.items():
        if names and name not in names:
            continue
        jax.clear_caches()
        model = case.model()
        exact_density = gibbs.exact_log_density(model)
        paths = [gibbs.simulate_path(model, case.truth, seed, case.num_steps) for seed in range(NUM_DATA_SETS)]
        start = np.asarray(model.parameters.unconstrain(case.truth))
        exact = [
            gibbs.exact_points(exact_density, path, start, np.full(len(start), 0.1), jax.random.key(9))
            for path in paths
        ]
        least = min(1 / float(np.sum(one.weights**2)) for one in exact)
        for kind in case.beliefs:
            row = _gibbs_row(name, kind, model, paths, exact) | {"least_effective_points": least}
            print(json.dumps(row), flush=True)
            put_row("beliefs_gibbs", {"data_sets": NUM_DATA_SETS, "precision": "float64"}, row, ("model", "belief"))
    return {}


def _gibbs_row(name: str, kind: Belief, model: pf.StateSpaceModel, paths: list, exact: list) -> dict:
    row = {"model": name, "belief": repr(kind)}
    try:
        belief = kind.bind(model)
    except BeliefError as error:
        return row | {"refused": str(error)}
    follow = gibbs.follow(belief)
    verdicts, began = [], time.process_time()
    for path, points in zip(paths, exact, strict=True):
        verdicts.append(gibbs.judge(belief, points, *follow(jax.random.key(1), path)))
    column = lambda field: np.array([getattr(verdict, field) for verdict in verdicts])
    return row | {
        "numbers": statistic_size(belief),
        "pivots": getattr(getattr(belief, "prior_cross", None), "size", None),
        "divergence_median": float(np.median(column("divergence"))),
        "divergence_largest": float(np.max(column("divergence"))),
        "mean_error_largest": float(np.max(column("mean_error"))),
        "sd_ratio": [float(np.min(column("sd_ratio"))), float(np.max(column("sd_ratio")))],
        "error_median": float(np.median(column("error"))),
        "cpu_seconds": time.process_time() - began,
    }


def filter_table(names: list[str] | None = None) -> dict:
    """Judge whole filters in the precision that is on (JAX_ENABLE_X64).

    First the paper's loop, then the default parts with beliefs along paths, then the default where that differs.
    """
    for name in names or [*PROBLEMS, NEAR]:
        problem = PROBLEMS["cauchy_ar1" if name == NEAR else name]
        variants = [PAPERS_LOOP | {"proposal": NearObservation()}] if name == NEAR else [PAPERS_LOOP, PATHS, {}]
        for parts in variants:
            jax.clear_caches()
            filter = pf.extended_parameter_filter(problem.model(), NUM_PARTICLES, **parts)
            if not parts and num_ancestors(filter) == 1:
                continue  # paths are its default
            row = filter_row(problem, filter)
            identity = ("problem", "precision", "proposal", "islands", "ancestors")
            put_row("beliefs_filters", {"particles": NUM_PARTICLES}, row, identity)
    return {}


def filter_row(problem: Problem, filter: pf.ParticleFilter) -> dict:
    """Run a filter on every data set of a problem."""
    trusted = references.load(problem.name)
    runs = []
    for seed in SEEDS:
        began = time.process_time()
        state, info = filter.compiled(_scan)(filter.init(jax.random.key(100 + seed)), data(problem, seed)[1])
        posterior = filter.posterior(state)
        mean, sd, right = posterior.mean(), posterior.sd(), trusted[str(seed)]
        flat = lambda values, right=right: np.concatenate([np.ravel(np.asarray(values[key])) for key in right["mean"]])
        errors = (flat(mean) - flat(right["mean"])) / flat(right["sd"])
        runs.append(
            {
                "seed": seed,
                "errors": np.round(errors, 4).tolist(),
                "absolute_errors": (flat(mean) - flat(right["mean"])).tolist(),
                "sd_ratios": np.round(flat(sd) / flat(right["sd"]), 4).tolist(),
                "ess_share": round(float(jnp.mean(info.ess)) / filter.num_particles, 3),
                "rhat": np.round(info.rhat[-1], 3).tolist(),
                "approximation_error": float(posterior.approximation_error()),
                "outcome": int(state.outcome),
                "cpu_seconds": round(time.process_time() - began, 2),
            }
        )
        print(problem.name, json.dumps(runs[-1]), flush=True)
    errors, ratios = np.array([run["errors"] for run in runs]), np.array([run["sd_ratios"] for run in runs])
    return {
        "problem": problem.name,
        "precision": str(jnp.result_type(float)),
        "proposal": repr(filter.proposal),
        "islands": filter.num_islands,
        "ancestors": num_ancestors(filter),
        "belief": repr(filter.belief),
        "num_steps": problem.num_steps,
        "parameters": _flat_names(trusted["0"]["mean"]),
        "rms_error": np.round(np.sqrt(np.mean(errors**2, axis=0)), 4).tolist(),
        "median_sd_ratio": np.round(np.median(ratios, axis=0), 4).tolist(),
        "ess_share": round(float(np.mean([run["ess_share"] for run in runs])), 3),
        "runs": runs,
    }


def _scan(filter: pf.ParticleFilter, state: FilterState, ys) -> tuple[FilterState, StepInfo]:
    return jax.lax.scan(lambda carry, y: filter.step(carry, y), state, ys)


def _flat_names(values: dict) -> list[str]:
    return [
        name if np.ndim(value) == 0 else f"{name}{list(index)}"
        for name, value in values.items()
        for index in np.ndindex(np.shape(value))
    ]


def honesty_table(num_settings: int = 200) -> dict:
    """Compare the reported error with the true one over models, settings and lengths drawn at random."""
    jax.config.update("jax_enable_x64", True)
    kinds = [
        ("SIN", kind) for kind in (*(Grid(n) for n in (11, 13, 17, 33)), *(CrossInterpolation(n) for n in (4, 5, 6, 8)))
    ]
    kinds += [("SIN", TaylorOfMean(order)) for order in (3, 5, 7)] + [("SIN")]
    kinds += [("Cauchy: a", Grid(n)) for n in (17, 33, 65, 129)] + [("Cauchy: a", TaylorOfLogDensity(10))]
    kinds += [("STAR: gamma, c", CrossInterpolation(n)) for n in (20, 30, 45)] + [("STAR: gamma, c", TaylorOfMean(5))]
    kinds += [("AR(1): phi, q", Grid(n)) for n in (11, 17, 33)] + [("AR(1): phi, q")]
    lengths = (30, 100, 300, 1000)
    rows = []
    per_kind = -(-num_settings // len(kinds))
    for index, (name, kind) in enumerate(kinds):
        jax.clear_caches()
        case = CASES[name]
        model = case.model()
        belief, exact_density = kind.bind(model), gibbs.exact_log_density(model)
        follow = gibbs.follow(belief)
        for turn in range(per_kind):
            num_steps = lengths[(index + turn) % len(lengths)]
            # Theta from the prior's bulk, so that settings differ in more than the data.
            z = 0.5 * (
                model.parameters.prior_draws[17 * index + turn] + np.asarray(model.parameters.unconstrain(case.truth))
            )
            theta = model.parameters.constrain(jnp.asarray(z))
            path = gibbs.simulate_path(model, theta, 1000 + 31 * index + turn, num_steps)
            points = gibbs.exact_points(exact_density, path, z, np.full(len(z), 0.1), jax.random.key(9))
            verdict = gibbs.judge(belief, points, *follow(jax.random.key(1), path))
            rows.append({"model": name, "belief": repr(kind), "num_steps": num_steps} | asdict(verdict))
        print(json.dumps(rows[-per_kind:]), flush=True)
        write_table("beliefs_honesty", {"settings": len(rows), "rows": rows})
    return {"rows": rows}


def cost_table(num_particles: int = NUM_PARTICLES, num_rounds: int = 15) -> dict:
    """Time an update and a draw of all particles against bare evaluations of the log density, interleaved."""
    rows = []
    for name in ("sin", "cauchy_ar1", "star", "stochastic_volatility", "smooth_transition", "multispecies"):
        jax.clear_caches()
        problem = PROBLEMS[name]
        model = problem.model()
        kinds = [Grid(33), CrossInterpolation()] if name == "sin" else [choose_belief(model)[0]]
        for kind in kinds:
            rows.append(_cost_row(name, problem, model, kind, num_particles, num_rounds))
            print(json.dumps(rows[-1]), flush=True)
            write_table("beliefs_cost", {"particles": num_particles, "precision": "float32", "rows": rows})
    return {"rows": rows}


def _cost_row(name, problem, model, kind, num_particles, num_rounds) -> dict:
    began = time.perf_counter()
    filter = pf.ParticleFilter(model, num_particles, kind)
    build = time.perf_counter() - began
    ys = data(problem, 0)[1]
    state = filter.init(jax.random.key(1))
    began = time.perf_counter()
    state, _ = filter.step(state, ys[0])
    jax.block_until_ready(state.z)
    compile_step = time.perf_counter() - began
    state = last_state(filter, state, ys[1:200])
    belief, factors = filter.bound_belief, ThetaFactors(model)
    size = statistic_size(belief)
    points = state.z[:size] if size <= num_particles else jnp.resize(state.z, (size, state.z.shape[1]))
    y = jax.tree.map(lambda leaf: leaf[200], ys)

    def bare(x, z):
        datum = lambda one: pf.model.Transition(one, one, y, None)
        return jax.vmap(lambda one: jax.vmap(lambda point: factors.step(datum(one), point))(z))(x)

    def update(shared, statistics, x):
        return jax.vmap(lambda s, one: belief.update(shared, s, pf.model.Transition(one, one, y, None)))(statistics, x)

    def draw(shared, statistics, z):
        keys = jax.random.split(jax.random.key(3), num_particles)
        return jax.vmap(belief.sample, in_axes=(0, None, 0, 0))(keys, shared, statistics, z).z

    calls = {
        "bare": (jax.jit(bare), (state.x, points)),
        "update": (jax.jit(update), (state.shared, state.statistics, state.x)),
        "draw": (jax.jit(draw), (state.shared, state.statistics, state.z)),
        "step": (lambda s: filter.step(s, y)[0].z, (state,)),
    }
    times = {label: [] for label in calls}
    for call, arguments in calls.values():
        jax.block_until_ready(call(*arguments))
    for _ in range(num_rounds):
        for label, (call, arguments) in calls.items():
            began = time.process_time()
            for _ in range(5):
                jax.block_until_ready(call(*arguments))
            times[label].append((time.process_time() - began) / 5)
    middle = {label: statistics.median(found) for label, found in times.items()}
    return {
        "problem": name,
        "belief": repr(kind),
        "numbers": size,
        "bare_microseconds": round(1e6 * middle["bare"], 1),
        "update_over_bare": round(middle["update"] / middle["bare"], 2),
        "draw_over_bare": round(middle["draw"] / middle["bare"], 2),
        "step_over_bare": round(middle["step"] / middle["bare"], 2),
        "seconds_to_build": round(build, 1),
        "seconds_to_compile_a_step": round(compile_step, 1),
    }


TABLES = {"gibbs": gibbs_table, "filters": filter_table, "honesty": honesty_table, "cost": cost_table}


def main() -> None:
    wanted = [word for word in sys.argv[1:] if word in TABLES] or list(TABLES)
    chosen = [word for word in sys.argv[1:] if word in CASES or word in PROBLEMS or word == NEAR]
    for name in wanted:
        TABLES[name](chosen) if name in ("gibbs", "filters") else TABLES[name]()


if __name__ == "__main__":
    main()

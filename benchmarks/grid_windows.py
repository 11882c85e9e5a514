"""One grid for all particles, or a window for each: `python -m benchmarks.grid_windows [problem ...] [--until 10000]`.

The extended parameter filter with its default proposal and islands on SIN, STAR, the Cauchy autoregression and AR(1)
with an unknown coefficient, three data sets each, against trusted answers (see `stages`). A row has the errors of the
posterior means in posterior sds, the ratios of sds, CPU microseconds a step of `run`, and the size of the program
behind `step` and `run`: its instructions before and after optimization, and the CPU seconds of the compiler. Rows of
beliefs that are no longer in the library are kept.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

import paramfilter as pf
from benchmarks.mixing import mixing_of, num_ancestors
from benchmarks.stages import DATA_SETS, Stage, autoregression, long_problem
from benchmarks.tables import put_row
from paramfilter.filters.advance import advance, window_of

NUM_PARTICLES = 500
MARKS = (100, 1000, 10_000, 100_000)
PROBLEMS = ("sin", "star", "cauchy_ar1", "ar1")
KIND = ("problem", "belief", "num_particles", "num_ancestors", "until")
HEADING = {"units": "errors in posterior sds, CPU microseconds a step, CPU seconds to compile"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare one grid for all particles with other beliefs.")
    parser.add_argument("problems", nargs="*", default=PROBLEMS, help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--belief", default="Grid", help="its name")
    parser.add_argument("--values", type=int, help="a coordinate; the belief's choice unless given")
    parser.add_argument("--particles", type=int, default=NUM_PARTICLES)
    parser.add_argument("--ancestors", type=int, help="the filter's choice unless given")
    parser.add_argument("--until", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=1, help="runs on each data set")
    chosen = parser.parse_args(arguments)
    marks = tuple(mark for mark in MARKS if mark <= chosen.until)
    belief = getattr(pf.beliefs, chosen.belief)(chosen.values)
    for name in chosen.problems:
        stage = autoregression(1.0, marks) if name == "ar1" else long_problem(name, marks)
        filter = pf.extended_parameter_filter(
            stage.model, chosen.particles, belief=belief, mixing=mixing_of(chosen.ancestors)
        )
        row = {
            "problem": name,
            "belief": f"{chosen.belief}({chosen.values or ''})",
            "num_particles": chosen.particles,
            "num_ancestors": num_ancestors(filter),
            "until": chosen.until,
            **program_size(filter),
            **judged(stage, filter, chosen.keys),
        }
        print(json.dumps(row), flush=True)
        put_row("grid_windows", HEADING, row, KIND)


def judged(stage: Stage, filter: pf.ParticleFilter, num_keys: int) -> dict:
    """Run a filter on each data set, and compare it with the right answer at each time."""
    names = stage.model.parameters.names
    errors, ratios = ({mark: [] for mark in stage.marks} for _ in range(2))
    seconds, outcome = [], 0
    pf.run(filter, filter.init(jax.random.key(9)), stage.data[0][:20], progress=False)  # compiles
    for seed in DATA_SETS:
        for number in range(num_keys):
            state, start = filter.init(jax.random.key(50 + 10 * seed + number)), 0
            for mark in stage.marks:
                began = time.process_time()
                state, _ = pf.run(filter, state, stage.data[seed][start:mark], progress=False)
                seconds.append((time.process_time() - began) / (mark - start))
                posterior, (right, width) = filter.posterior(state), stage.exact[seed, mark]
                mean, sd = ([values[name] for name in names] for values in (posterior.mean(), posterior.sd()))
                errors[mark].append((np.array(mean) - right) / width)
                ratios[mark].append(np.array(sd) / width)
                start = mark
            outcome |= int(state.outcome)
    return {
        "times": list(stage.marks),
        "rms_errors": [round(float(np.sqrt(np.mean(np.square(errors[mark])))), 3) for mark in stage.marks],
        "largest_errors": [round(float(np.max(np.abs(errors[mark]))), 3) for mark in stage.marks],
        "median_sd_ratios": [round(float(np.median(ratios[mark])), 3) for mark in stage.marks],
        "microseconds": round(1e6 * float(np.median(seconds[len(stage.marks) - 1 :: len(stage.marks)])), 1),
        "outcome": str(pf.Outcome(outcome)),
    }


def program_size(filter: pf.ParticleFilter) -> dict:
    """Compile the program behind `step` and `run` anew."""
    ys = jax.tree.map(lambda leaf: np.zeros((1, *leaf.shape), leaf.dtype), filter.shapes.y)
    given = (filter.init(jax.random.key(0)), *window_of((ys, None)), np.int32(1))
    lowered = filter.compiled(advance).__wrapped__.lower(*given)  # pyright: ignore[reportFunctionMemberAccess]
    count = lambda text: sum(" = " in line for line in text.splitlines())
    is_kept = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    began = time.process_time()
    compiled = lowered.compile()
    seconds = time.process_time() - began
    jax.config.update("jax_enable_compilation_cache", is_kept)
    compilation_cache.reset_cache()
    return {
        "instructions_before": count(lowered.as_text(dialect="hlo")),
        "instructions": count(compiled.as_text()),
        "compile_seconds": round(seconds, 1),
    }


if __name__ == "__main__":
    main()

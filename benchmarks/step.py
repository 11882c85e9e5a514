"""What the library adds to the engine: `python -m benchmarks.step [one] [calls] [fleet] [sparse] [age]`.

- one: a step of the library over the same arithmetic written bare (`bare`), many steps in one call, by particles, with
  and without health figures;
- calls: the same with one call a step, as a stream has it: what Python and the dispatch add;
- fleet: a fleet's step over the bare step under `vmap`, 256 particles a series;
- sparse: an update of 1 % of the rows over a step of all, by the size of the fleet;
- age: a step at t = 10^6 over one at t = 10^2, and the memory that was taken in between.

CPU time of one thread, the two in turn, medians of the ratios; each row is kept in `results/step.json`. Health figures
and checks are in the library's time, not in the bare one's. That both compute one posterior is seen after the 200 steps
of `one`; if they differ by half a posterior sd, there is no row.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from benchmarks import bare
from benchmarks.tables import put_row
from paramfilter.filters import FilterState

KIND = ("measured", "belief", "particles", "series")
NUM_ROUNDS = 9
SERIES_PARTICLES = 256
FAR = 0.5


def filter_for(name: str, num_particles: int, health: bool = True) -> tuple[pf.ParticleFilter, dict]:
    """Make the library's filter that does the arithmetic of the bare one, and say which parameters make its data."""
    if name == "conjugate":
        model, truth = pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0), r=1.0), {"phi": 0.8}
    else:
        model, truth = pf.models.sin(), {"theta": 0.7}
    if name == "taylor":
        return pf.ParticleFilter(model, num_particles, pf.beliefs.TaylorOfMean(7), health=health), truth
    parts = {"num_islands": bare.ISLANDS, "mixing": pf.filters.NoMixing(), "health": health}
    return pf.extended_parameter_filter(model, num_particles, **parts), truth


BARE = {"taylor": bare.taylor, "grid": bare.grid, "conjugate": bare.conjugate}


def in_turn(runs: dict[str, Callable[[], Any]]) -> dict[str, np.ndarray]:
    """Time several things in turn, in CPU seconds; each is done once before, to be compiled."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(NUM_ROUNDS + 1):
        for name, run in runs.items():
            began = time.process_time()
            jax.block_until_ready(run())
            if turn > 0:
                seconds[name].append(time.process_time() - began)
    return {name: np.array(values) for name, values in seconds.items()}


class Carried:
    """A state that goes from call to call; its memory is given back at once."""

    def __init__(self, step: Callable, state: Any, *rest: Any):
        self.step, self.state, self.rest = step, state, rest

    def __call__(self):
        self.state = self.step(self.state, *self.rest)
        return self.state


def row_of(measured: str, name: str, particles: int, series: int, ratio: np.ndarray | float, **figures) -> dict:
    """Say what was compared and how it came out."""
    kind = dict(zip(KIND, (measured, name, particles, series), strict=True))
    return {**kind, "ratio": round(float(np.median(ratio)), 4), **figures}


def ratio_of(seconds: dict[str, np.ndarray], label: str) -> float:
    """Return how many times the bare step's time another one takes."""
    return round(float(np.median(seconds[label] / seconds["bare"])), 4)


def medians(seconds: dict[str, np.ndarray], unit: Callable[[float], float]) -> dict[str, float]:
    """Return the median times in another unit."""
    return {label: round(unit(float(np.median(values))), 1) for label, values in seconds.items()}


def difference(filter: pf.ParticleFilter, state: FilterState, yardstick: bare.BareFilter, bare_state: Any) -> float:
    """Return how far apart the posterior means are, in posterior sds, or refuse to compare."""
    posterior = filter.posterior(state)
    ((name, mean),) = posterior.mean().items()
    theta, log_weights = yardstick.draws(bare_state, jax.random.key(4))
    found = float((jax.nn.softmax(log_weights) @ theta - mean) / posterior.sd()[name])
    if abs(found) > FAR:
        raise SystemExit(f"bare and library differ by {found:.2f} posterior sds: they are not the same filter.")
    return round(found, 2)


def one_filter(name: str, num_particles: int) -> dict:
    """Compare many steps in one call."""
    filter, truth = filter_for(name, num_particles)
    num_steps = int(np.clip(2e5 / num_particles, 5, 100))
    ys = pf.simulate(jax.random.key(0), filter.model, truth, 200)[1]
    yardstick = BARE[name](num_particles)

    runs, compile_seconds, ends = {}, {}, []
    quiet, _ = filter_for(name, num_particles, health=False)
    for label, step, state in (
        ("library", filter.step, filter.init(jax.random.key(1))),  # with all that it says about itself
        ("without_health", quiet.step, quiet.init(jax.random.key(1))),
        ("bare", lambda state, y: (yardstick.step(state, y), None), yardstick.start),
    ):
        run = jax.jit(lambda state, ys, step=step: jax.lax.scan(step, state, ys), donate_argnums=0)
        began = time.process_time()
        state, _ = jax.block_until_ready(run(state, ys))
        compile_seconds[label] = round(time.process_time() - began, 1)
        ends.append(jax.tree.map(jnp.copy, state))
        runs[label] = Carried(lambda state, ys, run=run: run(state, ys)[0], state, ys[:num_steps])
    seconds = in_turn(runs)
    return row_of(
        "one", name, num_particles, 1, seconds["library"] / seconds["bare"],
        ratio_without_health=ratio_of(seconds, "without_health"),
        nanoseconds_a_particle=medians(seconds, lambda value: 1e9 * value / num_steps / num_particles),
        compile_and_200_steps_in_seconds=compile_seconds,
        difference_in_posterior_sds=difference(filter, ends[0], yardstick, ends[2]),
    )  # fmt: skip


def calls(name: str, num_particles: int) -> dict:
    """Compare one call a step."""
    filter, truth = filter_for(name, num_particles)
    ys = np.asarray(pf.simulate(jax.random.key(0), filter.model, truth, 200)[1])
    yardstick = BARE[name](num_particles)
    compiled = jax.jit(yardstick.step)

    def stream(step, state):
        for y in ys:
            state = step(state, y)
        return state

    library = lambda state: stream(lambda state, y: filter.step(state, y)[0], state)
    seconds = in_turn({
        "library": Carried(library, filter.init(jax.random.key(1))),
        "bare": Carried(lambda state: stream(compiled, state), yardstick.start),
    })  # fmt: skip
    return row_of(
        "calls", name, num_particles, 1, seconds["library"] / seconds["bare"],
        microseconds_a_step=medians(seconds, lambda value: 1e6 * value / len(ys)),
    )  # fmt: skip


def fleet_step(name: str, num_series: int) -> dict:
    """Compare a fleet's step with the bare one under `vmap`."""
    filter, _ = filter_for(name, SERIES_PARTICLES)
    fleet, quiet = pf.Fleet(filter), pf.Fleet(filter_for(name, SERIES_PARTICLES, health=False)[0])
    yardstick = BARE[name](SERIES_PARTICLES)
    keys = jax.random.split(jax.random.key(2), num_series)
    many = jax.vmap(lambda key: yardstick.start._replace(key=key))(keys)
    ys = np.asarray(jax.random.normal(jax.random.key(3), (num_series,)))
    compiled = jax.jit(jax.vmap(yardstick.step), donate_argnums=0)
    seconds = in_turn({
        "library": Carried(lambda state: fleet.step(state, ys)[0], fleet.init(jax.random.key(0), range(num_series))),
        "without_health": Carried(lambda s: quiet.step(s, ys)[0], quiet.init(jax.random.key(0), range(num_series))),
        "bare": Carried(compiled, many, ys),
    })  # fmt: skip
    return row_of(
        "fleet", name, SERIES_PARTICLES, num_series, seconds["library"] / seconds["bare"],
        ratio_without_health=ratio_of(seconds, "without_health"),
        series_steps_a_second=medians(seconds, lambda value: num_series / value),
    )  # fmt: skip


def sparse_update(name: str, num_series: int) -> dict:
    """Compare an update of 1 % of the rows with a step of all."""
    filter, _ = filter_for(name, SERIES_PARTICLES)
    fleet = pf.Fleet(filter)
    ids = np.arange(num_series)
    some = np.asarray(jax.random.choice(jax.random.key(0), num_series, (num_series // 100,), replace=False))
    ys = np.asarray(jax.random.normal(jax.random.key(3), (num_series,)))
    alone, state = fleet.init(jax.random.key(0), [0, 1]), fleet.init(jax.random.key(0), ids)

    def update_then_step():
        nonlocal state
        began = time.process_time()
        state, _ = jax.block_until_ready(fleet.update(state, some, ys[some]))
        took.append(time.process_time() - began)
        state, _ = fleet.step(state, ys)
        return state

    took: list[float] = []
    both = in_turn({"both": update_then_step, "constant": Carried(lambda s: fleet.update(s, [1], [0.5])[0], alone)})
    update, constant = np.array(took[1:]), float(np.median(both["constant"]))
    step = both["both"] - update
    return row_of(
        "sparse", name, SERIES_PARTICLES, num_series, update / step,
        rows=len(some),
        ratio_without_the_constant=round(float(np.median((update - constant) / step)), 4),
        constant_in_microseconds=round(1e6 * constant, 1),
    )  # fmt: skip


def age(name: str, num_particles: int = 100, late: int = 1_000_000) -> dict:
    """Compare steps late in a stream with early ones, and see whether memory grows."""
    filter, truth = filter_for(name, num_particles)
    filter = pf.extended_parameter_filter(filter.model, num_particles)
    ys = pf.simulate(jax.random.key(0), filter.model, truth, 10_000)[1]
    run = jax.jit(lambda state, ys: jax.lax.scan(lambda s, y: (filter.step(s, y)[0], None), state, ys)[0])
    early = jax.block_until_ready(run(filter.init(jax.random.key(1)), ys[:100]))
    aged = run(early, ys)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while int(aged.time) < late:
        aged = jax.block_until_ready(run(aged, ys))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    # A time at which beliefs are mixed is as far away for both.
    some = ys[:1000]
    seconds = in_turn({"late": lambda: run(aged, some), "early": lambda: run(run(early, ys[:900]), some)})
    only = in_turn({"early": lambda: run(early, ys[:900])})["early"]
    return row_of(
        "age", name, num_particles, 1, seconds["late"] / (np.median(seconds["early"]) - np.median(only)),
        late=int(aged.time),
        memory_grown_in_megabytes=round(grown / 1024, 1),
    )  # fmt: skip


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    measures = ("one", "calls", "fleet", "sparse", "age")
    parser.add_argument("what", nargs="*", choices=[[], *measures], metavar="|".join(measures))
    parser.add_argument("--beliefs", nargs="*", default=list(BARE))
    parser.add_argument("--particles", type=int, nargs="*", default=(100, 1000, 10_000, 100_000))
    parser.add_argument("--series", type=int, nargs="*", default=(1000, 10_000))
    options = parser.parse_args()
    for what in options.what or measures:
        for name in options.beliefs:
            if what in ("one", "calls"):
                rows = ({"one": one_filter, "calls": calls}[what](name, num) for num in options.particles)
            elif what in ("fleet", "sparse"):
                rows = ({"fleet": fleet_step, "sparse": sparse_update}[what](name, num) for num in options.series)
            else:
                rows = iter([age(name)])
            for row in rows:
                print(json.dumps(row), flush=True)
                put_row("step", {"precision": "float32", "units": "CPU time of one thread"}, row, KIND)
                jax.clear_caches()


if __name__ == "__main__":
    main()

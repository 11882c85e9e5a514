"""Series-steps a CPU second: a fleet, a Python loop over single filters, `particles` and `smcx`, in one run.

    python -m benchmarks.throughput

AR(1), 256 particles a series, one thread each, in turn, medians; starting and compiling are left out. What they do is
not the same: the fleet and the loop learn the coefficient (exact beliefs, guided moves, health figures), `smcx` learns
it by Liu-West, and `particles` runs its bootstrap filter with the coefficient known, since it has no online learning.
One filter each for the last three, as they have no fleets. The row is kept in `results/throughput.json`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
from tests.support.processes import SINGLE_THREAD_FLAGS

from benchmarks.environments import python_of
from benchmarks.tables import put_row

NUM_ROUNDS = 5

OURS = """
import jax, numpy as np, numpyro.distributions as dist, paramfilter as pf
model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0), r=1.0)
filter = pf.extended_parameter_filter(model, 256)
"""

PROGRAMS = {
    "fleet of 4096": OURS
    + """
fleet = pf.Fleet(filter)
ys = np.asarray(jax.random.normal(jax.random.key(0), (4096,)))
state = fleet.init(jax.random.key(1), range(4096))
def work():
    global state
    for _ in range(5):
        state, _ = fleet.step(state, ys)
    jax.block_until_ready(state.series.x)
    return 5 * 4096
""",
    "loop over filters": OURS
    + """
states = [filter.init(jax.random.key(seed)) for seed in range(50)]
def work():
    for _ in range(10):
        for place, state in enumerate(states):
            states[place], _ = filter.step(state, 0.3)
    jax.block_until_ready(states)
    return 10 * 50
""",
    "particles": """
import numpy as np, particles
from particles import distributions as dists, state_space_models as ssm
class Model(ssm.StateSpaceModel):
    def PX0(self): return dists.Normal()
    def PX(self, t, xp): return dists.Normal(loc=0.8 * xp, scale=1.0)
    def PY(self, t, xp, x): return dists.Normal(loc=x, scale=1.0)
ys = np.random.default_rng(0).normal(size=500)
def work():
    particles.SMC(fk=ssm.Bootstrap(ssm=Model(), data=ys), N=256).run()
    return 500
""",
    "smcx": """
import jax, jax.numpy as jnp, smcx
ys = jax.random.normal(jax.random.key(0), (500,))
log_normal = lambda y, mean: -0.5 * (y - mean) ** 2
run = jax.jit(lambda key: smcx.liu_west_filter(
    key,
    lambda key, num: jax.random.normal(key, (num, 1)),
    lambda key, x, theta: theta * x + jax.random.normal(key, x.shape),
    lambda y, x, theta: log_normal(y[0], x[0]),
    lambda y, x, theta: log_normal(y[0], theta[0] * x[0]),
    lambda key, num: jax.random.normal(key, (num, 1)),
    ys, 256, resampling_threshold=2.0, parameter_moves="on_selection", store_history=False,
))
def work():
    jax.block_until_ready(run(jax.random.key(1)))
    return 500
""",
}

MEASURE = """
import json, time
work()
for _ in range({rounds}):
    input()
    began = time.process_time()
    done = work()
    print("FOUND" + json.dumps(done / (time.process_time() - began)), flush=True)
"""


def main() -> None:
    """Start all four, and let them work in turn."""
    env = {**os.environ, "XLA_FLAGS": SINGLE_THREAD_FLAGS, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    pythons = {name: python_of(name) if name in ("particles", "smcx") else sys.executable for name in PROGRAMS}
    running = {
        name: subprocess.Popen(
            [pythons[name], "-c", program + MEASURE.format(rounds=NUM_ROUNDS)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, program in PROGRAMS.items()
    }
    rates: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    try:
        for _ in range(NUM_ROUNDS):
            for name, process in running.items():
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write("\n")
                process.stdin.flush()
                said = next(line for line in process.stdout if line.startswith("FOUND"))
                rates[name].append(json.loads(said.removeprefix("FOUND")))
    finally:
        for process in running.values():
            process.kill()
    row = {"particles": 256, "series_steps_a_cpu_second": {name: round(np.median(one)) for name, one in rates.items()}}
    print(json.dumps(row))
    put_row("throughput", {"model": "AR(1)", "threads": 1}, row, ("particles",))


if __name__ == "__main__":
    main()

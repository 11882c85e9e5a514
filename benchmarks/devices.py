"""What a second core is worth to a fleet of 4096 series of 256 particles each: `python -m benchmarks.devices`.

On one device, on two devices of one process, and in two processes of one device each that have joined on loopback.
Wall time of a step, since cores are what is bought here; the three in turn, several rounds, medians. The yardstick is
two processes that know nothing of each other, each with half of the work: what the machine itself gives for a second
core. Rows are kept in `results/devices.json`.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from tests.support.processes import found_by

from benchmarks.tables import put_row

NUM_ROUNDS = 3

WORK = """
def work(num_parts):
    num_series = 4096 // num_parts
    fleet = pf.Fleet(pf.extended_parameter_filter(model, 256), mesh)
    ys = np.asarray(jax.random.normal(jax.random.key(3), (num_series,)))
    return fleet.init(jax.random.key(0), range(num_series)), lambda state: fleet.step(state, ys)[0]
"""

MEASURE = """
import json, time
import jax, numpy as np, numpyro.distributions as dist, paramfilter as pf

model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0), r=1.0)
mesh = jax.make_mesh((jax.device_count(),), ("device",))
{work}
state, step = work({num_parts})
for _ in range(3):
    state = jax.block_until_ready(step(state))
seconds = []
for _ in range(15):
    began = time.perf_counter()
    state = jax.block_until_ready(step(state))
    seconds.append(time.perf_counter() - began)
if jax.process_index() == 0:
    print("FOUND" + json.dumps(seconds), flush=True)
"""


def strangers() -> list[float]:
    """Let two processes that know nothing of each other do half of the work each."""
    program = MEASURE.format(work=WORK, num_parts=2)
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda _: found_by(program), range(2)))
    return [max(both) for both in zip(*found, strict=True)]


def together(num_processes: int = 1, num_devices: int = 1) -> list[float]:
    return found_by(MEASURE.format(work=WORK, num_parts=1), num_processes, num_devices)


def main() -> None:
    """Measure the fleet in each way."""
    ways = {
        "one device": together,
        "two devices": lambda: together(num_devices=2),
        "two processes": lambda: together(num_processes=2),
        "two strangers": strangers,
    }
    medians: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(NUM_ROUNDS):
        for way, measure in ways.items():
            medians[way].append(float(np.median(measure())))
    alone = np.array(medians["one device"])
    row = {
        "measured": "fleet",
        "milliseconds_a_step": {way: round(1e3 * float(np.median(values)), 1) for way, values in medians.items()},
        "speed_up": {way: round(float(np.median(alone / values)), 2) for way, values in medians.items()},
    }
    print(json.dumps(row), flush=True)
    put_row("devices", {"precision": "float32", "units": "wall time"}, row, ("measured",))


if __name__ == "__main__":
    main()

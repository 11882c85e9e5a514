"""A fleet over eight devices, and over two and four processes, gives what one device gives; nothing is sent."""

import re

import pytest

from tests.support.processes import found_by

COLLECTIVES = "all-gather|all-reduce|all-to-all|reduce-scatter|collective-permute"

RUN = """
import json
import jax, numpy as np, numpyro.distributions as dist, paramfilter as pf
from paramfilter.fleet.rows import fetch

model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5)
filter = pf.storvik_filter(model, 32)
mesh = None if {alone} else jax.make_mesh((jax.device_count(),), ("series",))
fleet = pf.Fleet(filter, mesh)
num_series = 130
state = fleet.init(jax.random.key(0), range(num_series))
ys = np.asarray(jax.random.normal(jax.random.key(1), (20, num_series)))
for row in ys:
    state, info = fleet.step(state, row)
for count in (2, 3, 5):
    state, info = fleet.update(state, [120, 9, 1, 33, 17][:count], ys[0, :count])
given = fleet._filled((ys[0], None, np.ones(num_series, bool)), np.arange(num_series), state.num_rows)
compiled = fleet._step.__wrapped__.lower(state.series, *given).compile()
found = {{
    "num_devices": jax.device_count(),
    "mean": fetch(jax.numpy.asarray(fleet.mean(state)["phi"])).tolist(),
    "time": fetch(state.time).tolist(),
    "ess": info.ess.tolist(),
    "program": compiled.as_text(),
}}
if jax.process_index() == 0:
    print("FOUND" + json.dumps(found), flush=True)
"""


@pytest.fixture(scope="module")
def alone():
    return found_by(RUN.format(alone=True))


def test_eight_devices_give_what_one_gives_and_send_nothing(alone):
    shared_out = found_by(RUN.format(alone=False), num_devices=8)
    assert shared_out["num_devices"] == 8
    assert shared_out["time"] == alone["time"]
    assert shared_out["ess"] == alone["ess"] and shared_out["mean"] == alone["mean"]
    assert "while" in shared_out["program"]
    assert re.findall(COLLECTIVES, shared_out["program"]) == []


@pytest.mark.slow
@pytest.mark.parametrize("num_processes", [2, 4])
def test_processes_share_a_fleet_out(num_processes, alone):
    shared_out = found_by(RUN.format(alone=False), num_processes)
    assert shared_out["num_devices"] == num_processes
    assert shared_out["time"] == alone["time"]
    assert shared_out["ess"] == alone["ess"] and shared_out["mean"] == alone["mean"]

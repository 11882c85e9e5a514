"""A fleet over eight devices, and over two and four processes, gives what one device gives; nothing is sent."""

import json
import re
import subprocess
import sys

import pytest

RUN = """
import json, sys
import jax, numpy as np, numpyro.distributions as dist, paramfilter as pf
from paramfilter import fleet as module

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
compiled = fleet._step.lower(
    state.series, *fleet._filled((ys[0], None, np.ones(num_series, bool)), np.arange(num_series), state.num_rows)
).compile()
found = {{
    "num_devices": jax.device_count(),
    "mean": module._fetch(fleet.mean(state)["phi"]).tolist(),
    "time": module._fetch(state.time).tolist(),
    "ess": info.ess.tolist(),
    "program": compiled.as_text(),
}}
if jax.process_index() == 0:
    print("FOUND" + json.dumps(found), flush=True)
"""

JOIN = """
import jax
jax.distributed.initialize("127.0.0.1:{port}", {num_processes}, {process})
"""


def found_in(output: str) -> dict:
    return json.loads(output.split("FOUND")[1])


@pytest.fixture(scope="module")
def alone(run_with_devices):
    return found_in(run_with_devices(1, RUN.format(alone=True)))


def test_eight_devices_give_what_one_gives_and_send_nothing(run_with_devices, alone):
    shared_out = found_in(run_with_devices(8, RUN.format(alone=False)))
    assert shared_out["num_devices"] == 8
    assert shared_out["time"] == alone["time"]
    assert shared_out["ess"] == alone["ess"] and shared_out["mean"] == alone["mean"]
    assert "while" in shared_out["program"]
    sent = re.findall(r"all-gather|all-reduce|all-to-all|reduce-scatter|collective-permute", shared_out["program"])
    assert sent == []


@pytest.mark.parametrize("num_processes", [2, 4])
def test_processes_share_a_fleet_out(num_processes, free_port, environment_of, alone):
    port = free_port()
    programs = [
        JOIN.format(port=port, num_processes=num_processes, process=process) + RUN.format(alone=False)
        for process in range(num_processes)
    ]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program], env=environment_of(1), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for program in programs
    ]
    try:
        said = [process.communicate(timeout=300) for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * num_processes, said[0][1].decode()[-2000:]
    shared_out = found_in(said[0][0].decode())
    assert shared_out["num_devices"] == num_processes
    assert shared_out["time"] == alone["time"]
    assert shared_out["ess"] == alone["ess"] and shared_out["mean"] == alone["mean"]

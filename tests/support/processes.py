"""Programs in processes of their own, with so many devices each."""

import json
import os
import socket
import subprocess
import sys

SINGLE_THREAD_FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

JOIN = """
import jax
jax.distributed.initialize("127.0.0.1:{port}", {num_processes}, {process})
"""


def found_by(program: str, num_processes: int = 1, num_devices: int = 1) -> dict:
    """Run a program, as one process or several that have joined, and return what the first one printed as FOUND."""
    port = free_port()
    joins = [JOIN.format(port=port, num_processes=num_processes, process=one) for one in range(num_processes)]
    # The number of devices first: what follows the thread count is not read.
    flags = f"--xla_force_host_platform_device_count={num_devices} {SINGLE_THREAD_FLAGS}"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", (join if num_processes > 1 else "") + program],
            env={**os.environ, "XLA_FLAGS": flags},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for join in joins
    ]
    try:
        said = [process.communicate(timeout=600) for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * num_processes, said[0][1][-2000:]
    return json.loads(said[0][0].split("FOUND")[1])


def free_port() -> int:
    """Return a port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

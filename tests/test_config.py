"""The compilation cache: what the next process finds there, and what is left alone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache as cache_of_jax

from paramfilter import config
from paramfilter.tracing import evaluate

REPORT = """
import json, sys, jax, jax.numpy as jnp
from jax._src.lib import xla_client
from paramfilter import config

events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.rpartition("/")[2]))
{begin}
total = float(jax.jit(lambda x: jnp.cumsum(jnp.sin(x)).sum())(jnp.arange(9.0)))
print(json.dumps(dict(
    total=total, loaded=events.count("cache_hits"), compiled=events.count("cache_misses"),
    jax=str(jax.config.jax_compilation_cache_dir),
    machine=xla_client.get_topology_for_devices(jax.devices()).fingerprint(),
)))
"""
TOTAL = pytest.approx(np.cumsum(np.sin(np.arange(9.0))).sum(), rel=1e-5)
MODEL = """
import numpyro.distributions as dist
from paramfilter.model import StateSpaceModel
jax.jit(lambda x: x + 1)(2.0)  # here JAX has decided for this process that there is no cache
normal = lambda *_: dist.Normal(0.0, 1.0)
model = StateSpaceModel({"theta": dist.Normal(0.0, 1.0)}, normal, normal, normal)
assert jax.config.jax_compilation_cache_dir is None
model.parameters
"""
SETTINGS = {
    "jax_compilation_cache_dir": None,
    "jax_enable_compilation_cache": True,
    "jax_persistent_cache_min_compile_time_secs": 1.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
}
"""JAX's defaults. Their environment variables have the same names in capitals."""

VARIABLES = ("XDG_CACHE_HOME", config.VARIABLE, *map(str.upper, SETTINGS))


def process(home, begin="config.use_compilation_cache()", **settings):
    """Run the script in a process with this home, and return what it found and what it wrote to standard error."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= {"HOME": str(home), **settings}
    command = [sys.executable, "-c", REPORT.format(begin=begin)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout) | {"said": ended.stderr}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def first(home):
    """What a first process found."""
    return process(home, MODEL)


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """Let this process be as if it had just started, with a new home."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    start_again()
    yield tmp_path
    start_again(before)
    cache_of_jax.reset_cache()


def start_again(settings=SETTINGS):
    for name, value in settings.items():
        jax.config.update(name, value)
    config.use_compilation_cache.cache_clear()


def test_a_second_process_compiles_nothing_of_what_the_first_model_of_the_first_one_needed(home, first):
    second = process(home, MODEL)
    assert (first["loaded"], second["compiled"]) == (0, 0)
    assert second["loaded"] == first["compiled"] > 0
    assert (first["total"], second["total"], second["said"]) == (TOTAL, TOTAL, "")
    assert Path(first["jax"]) == home / ".cache" / "paramfilter"
    assert Path(first["jax"]).stat().st_mode & 0o777 == 0o700


def test_code_compiled_for_other_instructions_is_not_loaded(home, first):
    """JAX looks programs up by the machine's fingerprint, which holds its instructions."""
    other = process(home, MODEL, XLA_FLAGS=f"--xla_cpu_max_isa=SSE4_2 {os.environ['XLA_FLAGS']}")
    assert other["machine"] != first["machine"]
    assert (other["loaded"], other["compiled"], other["total"]) == (0, first["compiled"], TOTAL)


def test_a_damaged_entry_is_compiled_again(first, home, tmp_path):
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    paths = sorted(tmp_path.rglob("*-cache"))
    for number, path in enumerate(paths):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] if number % 2 else b"\x00" + whole[1:])
    found = process(tmp_path)
    assert len(paths) > 1 and found["jax"].startswith(str(tmp_path))
    assert (found["loaded"], found["total"]) == (0, TOTAL)


def test_a_home_that_cannot_be_written_to_is_no_error_and_no_warning():
    found = process("/proc/nowhere")  # where not even root can make a directory
    assert (found["jax"], found["total"], found["said"]) == ("None", TOTAL, "")


def test_the_environment_turns_it_off(fresh, monkeypatch):
    monkeypatch.setenv("PARAMFILTER_COMPILATION_CACHE", "off")
    config.use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir is None and not (fresh / ".cache").exists()


@pytest.mark.parametrize("name", ["XDG_CACHE_HOME", "PARAMFILTER_COMPILATION_CACHE"])
def test_the_environment_moves_it(fresh, monkeypatch, name):
    monkeypatch.setenv(name, str(fresh / "scratch"))
    evaluate(lambda x: x + 1, np.float32(1.0))
    assert jax.config.jax_compilation_cache_dir.startswith(str(fresh / "scratch"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_compilation_cache_dir", "/tmp/own"),
        ("jax_enable_compilation_cache", False),
        ("jax_persistent_cache_min_compile_time_secs", 3.0),
    ],
)
def test_what_the_user_told_jax_is_left_alone(fresh, name, value):
    jax.config.update(name, value)
    config.use_compilation_cache()
    assert getattr(jax.config, name) == value
    if name != "jax_persistent_cache_min_compile_time_secs":
        assert {key: getattr(jax.config, key) for key in SETTINGS} == SETTINGS | {name: value}


@pytest.mark.parametrize(("inner", "outer"), [(0o775, 0o700), (0o757, 0o700), (0o700, 0o777)])
def test_a_directory_that_others_can_write_to_or_exchange_is_not_used(fresh, recwarn, inner, outer):
    (fresh / ".cache" / "paramfilter").mkdir(parents=True)
    (fresh / ".cache" / "paramfilter").chmod(inner)
    (fresh / ".cache").chmod(outer)
    config.use_compilation_cache()
    assert (jax.config.jax_compilation_cache_dir, list(recwarn)) == (None, [])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_not_used(fresh):
    (fresh / ".cache" / "paramfilter").mkdir(parents=True)
    os.chown(fresh / ".cache" / "paramfilter", 12345, -1)
    config.use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir is None

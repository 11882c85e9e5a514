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

import paramfilter as pf
from paramfilter import config

REPORT = """
import json, sys, jax, jax.numpy as jnp
from paramfilter import config

events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.rpartition("/")[2]))
{begin}
total = float(jax.jit(lambda x: jnp.cumsum(jnp.sin(x)).sum())(jnp.arange(9.0)))
print(json.dumps(dict(
    total=total, loaded=events.count("cache_hits"), compiled=events.count("cache_misses"),
    ours=str(config.compilation_cache()), jax=str(jax.config.jax_compilation_cache_dir),
)))
"""
TOTAL = pytest.approx(np.cumsum(np.sin(np.arange(9.0))).sum(), rel=1e-5)
MODEL = """
import numpyro.distributions as dist
from paramfilter.model import StateSpaceModel
jax.jit(lambda x: x + 1)(2.0)  # here JAX has decided for this process that there is no cache
normal = lambda *_: dist.Normal(0.0, 1.0)
StateSpaceModel({"theta": dist.Normal(0.0, 1.0)}, normal, normal, normal)
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
    return process(home)


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """Let this process be as if it had just started, with a new home."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(config, "_is_decided", False)
    monkeypatch.setattr(config, "_directory", None)
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        jax.config.update(name, value)
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    cache_of_jax.reset_cache()


def test_a_second_process_compiles_nothing(home, first):
    second = process(home)
    assert (first["loaded"], second["compiled"]) == (0, 0)
    assert second["loaded"] == first["compiled"] > 0
    assert second["total"] == first["total"] == TOTAL
    assert second["said"] == ""
    assert Path(first["ours"]).parent == home / ".cache" / "paramfilter"
    assert Path(first["ours"]).stat().st_mode & 0o777 == 0o700


def test_code_compiled_for_other_instructions_is_not_loaded(home, first):
    other = process(home, XLA_FLAGS=f"{os.environ['XLA_FLAGS']} --xla_cpu_max_isa=SSE4_2")
    assert other["ours"] != first["ours"]
    assert (other["loaded"], other["compiled"], other["total"]) == (0, first["compiled"], TOTAL)


def test_making_a_model_switches_the_cache_on_though_jax_has_compiled_before(tmp_path):
    begun, again = process(tmp_path, MODEL), process(tmp_path, MODEL)
    assert begun["compiled"] > 0 and begun["ours"] == begun["jax"] != "None"
    assert again["loaded"] == begun["compiled"]


def test_a_damaged_entry_is_compiled_again(first, home, tmp_path):
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    paths = sorted(path for path in tmp_path.rglob("*-cache") if path.parent.name == Path(first["ours"]).name)
    for number, path in enumerate(paths):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] if number % 2 else b"\x00" + whole[1:])
    found = process(tmp_path)
    assert len(paths) > 1 and found["ours"].startswith(str(tmp_path))
    assert (found["loaded"], found["total"]) == (0, TOTAL)


def test_a_home_that_cannot_be_written_to_is_no_error_and_no_warning():
    found = process("/proc/nowhere")  # where not even root can make a directory
    assert (found["ours"], found["jax"], found["total"], found["said"]) == ("None", "None", TOTAL, "")


def test_the_environment_turns_it_off(tmp_path):
    found = process(tmp_path, MODEL, PARAMFILTER_COMPILATION_CACHE="off")
    assert (found["ours"], found["jax"], found["loaded"] + found["compiled"]) == ("None", "None", 0)
    assert not (tmp_path / ".cache").exists()


def test_the_users_own_directory_is_used(tmp_path):
    own = str(tmp_path / "own")
    found = process(tmp_path, JAX_COMPILATION_CACHE_DIR=own)
    assert (found["ours"], found["jax"]) == ("None", own)
    assert not (tmp_path / ".cache").exists()


@pytest.mark.parametrize("name", ["XDG_CACHE_HOME", "PARAMFILTER_COMPILATION_CACHE"])
def test_the_environment_moves_it(fresh, monkeypatch, name):
    monkeypatch.setenv(name, str(fresh / "scratch"))
    config.use_compilation_cache()
    directory = config.compilation_cache()
    assert directory is not None and directory.is_relative_to(fresh / "scratch")
    assert jax.config.jax_compilation_cache_dir == str(directory)


def test_python_moves_it_and_turns_it_off(fresh):
    pf.config.set_compilation_cache(fresh / "moved")
    pf.config.use_compilation_cache()  # a model is made; the user has decided already
    assert jax.config.jax_compilation_cache_dir.startswith(str(fresh / "moved"))
    pf.config.set_compilation_cache(None)
    pf.config.use_compilation_cache()
    assert pf.config.compilation_cache() is None
    assert {name: getattr(jax.config, name) for name in SETTINGS} == SETTINGS


@pytest.mark.parametrize(
    ("name", "value"), [("jax_compilation_cache_dir", "/tmp/own"), ("jax_enable_compilation_cache", False)]
)
def test_what_the_user_told_jax_is_left_alone(fresh, name, value):
    jax.config.update(name, value)
    config.use_compilation_cache()
    assert {key: getattr(jax.config, key) for key in SETTINGS} == SETTINGS | {name: value}
    with pytest.raises(pf.errors.ArgumentError, match="JAX's own compilation cache"):
        pf.config.set_compilation_cache(fresh)
    pf.config.set_compilation_cache(None)
    assert {key: getattr(jax.config, key) for key in SETTINGS} == SETTINGS | {name: value}


@pytest.mark.parametrize("seconds", [1.0, 3.0])
def test_the_users_own_threshold_is_left_alone(fresh, monkeypatch, seconds):
    if seconds == 1.0:  # JAX's default: only the environment shows that the user wants it
        monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", seconds)
    config.use_compilation_cache()
    assert config.compilation_cache() is not None
    assert jax.config.jax_persistent_cache_min_compile_time_secs == seconds


@pytest.mark.parametrize(("inner", "outer"), [(0o755, 0o700), (0o700, 0o777)])
def test_a_directory_that_is_open_to_others_is_not_used(fresh, recwarn, inner, outer):
    root = fresh / ".cache" / "paramfilter"
    directory = root / f"compiled-{config._machine()}"
    directory.mkdir(parents=True)
    directory.chmod(inner)
    root.chmod(outer)
    config.use_compilation_cache()
    assert (config.compilation_cache(), jax.config.jax_compilation_cache_dir, list(recwarn)) == (None, None, [])
    with pytest.raises(pf.errors.ArgumentError, match="cannot hold compiled code"):
        pf.config.set_compilation_cache(root)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("name", ["root", "directory"])
def test_a_directory_of_another_user_is_not_used(fresh, name):
    root = fresh / ".cache" / "paramfilter"
    directory = root / f"compiled-{config._machine()}"
    directory.mkdir(mode=0o700, parents=True)
    os.chown(root if name == "root" else directory, 12345, -1)
    config.use_compilation_cache()
    assert config.compilation_cache() is None


def test_a_file_in_the_place_of_the_directory_is_refused_where_it_was_asked_for(fresh):
    (fresh / "file").write_text("")
    with pytest.raises(pf.errors.ArgumentError, match=r"directory='.*file' cannot hold compiled code"):
        pf.config.set_compilation_cache(fresh / "file")


def test_old_files_are_removed_until_the_rest_is_within_the_bound(fresh, monkeypatch):
    monkeypatch.setattr(config, "MAX_BYTES", 300)
    root = fresh / ".cache" / "paramfilter"
    for age in range(6):  # 100 bytes each, in the directories of two machines
        path = root / f"compiled-{age % 2}" / f"jit_{age}-cache"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (1e9 - age, 1e9 - age))
    (root / "compiled-0" / "jit_stopped-cache").write_bytes(b"")
    (root / "notes.txt").write_text("not ours" * 100)
    root.chmod(0o700)
    config.use_compilation_cache()
    assert sorted(path.name for path in root.rglob("*-cache")) == ["jit_0-cache", "jit_1-cache", "jit_2-cache"]
    assert (root / "notes.txt").exists()

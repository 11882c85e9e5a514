"""Another version of JAX opens the store of this one, and the other way round; both go on with the same numbers."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from tests.support.streams.toy import line
from tests.support.streams.upgrades import FILTERS

ROOT = Path(__file__).parents[2]
NUM_SERIES, NUM_STEPS = 10, 20


def lines(first, last):
    return [
        line(f"s{number}", step, math.sin(number + step))
        for step in range(first, last + 1)
        for number in range(NUM_SERIES)
    ]


@pytest.fixture(scope="module")
def environments(tmp_path_factory):
    """Environments of a process with this JAX, and with the oldest that the package allows."""
    (oldest,) = re.findall(r'"jax>=([\d.]+),', (ROOT / "pyproject.toml").read_text())
    assert jax.__version__ != oldest
    uv = shutil.which("uv", path=os.pathsep.join([os.environ["PATH"], f"{sys.base_prefix}/bin"]))
    if uv is None:
        pytest.skip("uv makes the other environment")
    place = tmp_path_factory.mktemp("jax")
    packages = [f"jax=={oldest}", f"jaxlib=={oldest}"]
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", str(place)]
    subprocess.run([*command, *packages], check=True)
    environment = lambda version: {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(place / f"compiled-{version}")}
    return {jax.__version__: environment(jax.__version__), oldest: {**environment(oldest), "PYTHONPATH": str(place)}}


def work(folder, name, environment):
    """Go on in a process of its own; return what it prints."""
    command = [sys.executable, "-m", "tests.support.streams.upgrades", str(folder), name]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FILTERS))
def test_versions_of_jax_go_on_with_the_stores_of_each_other(environments, tmp_path, name):
    own, oldest = environments
    found = {}
    for first, then in [(own, own), (oldest, own), (own, oldest)]:
        folder = tmp_path / f"{first}-{then}"
        (folder / "log").mkdir(parents=True)
        for version, steps in ((first, (1, NUM_STEPS // 2)), (then, (NUM_STEPS // 2 + 1, NUM_STEPS))):
            with (folder / "log" / "1.jsonl").open("ab") as file:
                file.writelines(one + b"\n" for one in lines(*steps))
            said = work(folder, name, environments[version])
            assert said["jax"] == version
        assert said["counts"]["applied"] == NUM_SERIES * NUM_STEPS
        found[first, then] = said
    wanted = found.pop((own, own))
    for (first, then), said in found.items():
        same = sum(said["states"][one] == state for one, state in wanted["states"].items())
        print(f"{name}: {first} then {then}: {same} of {NUM_SERIES} states have the same bits")
        for one, figures in wanted["figures"].items():
            names = [key for key in figures if key.startswith(("mean:", "sd:"))]
            np.testing.assert_allclose(
                [said["figures"][one][key] for key in names], [figures[key] for key in names], rtol=1e-3
            )

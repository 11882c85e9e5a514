"""Environments of their own for other people's libraries, made once: `benchmarks/.environments/NAME`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "particles": ("particles==0.4", "numpy<2"),  # does not run on numpy 2
    "smcx": ("smcx==2.1.0",),
    "spark": ("pyspark==4.3.0", "pandas", "pyarrow", "-e", str(Path(__file__).parent.parent)),
}


def python_of(name: str) -> str:
    """Return the interpreter of an environment, which is made if it is not there."""
    folder = Path(__file__).parent / ".environments" / name
    if not folder.exists():
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, folder], check=True)
        install = ["uv", "pip", "install", "--quiet", "--python", folder / "bin" / "python", *PACKAGES[name]]
        subprocess.run(install, check=True)
    return str(folder / "bin" / "python")

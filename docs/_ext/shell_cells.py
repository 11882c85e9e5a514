"""Cells that begin with `%%bash`, for the pages that show the command line: `import shell_cells` in a hidden cell.

IPython's own magic passes output on in pieces that end anywhere, and a page shows each piece as a line; and notebooks
ask programs for colours. Here a command runs to its end, without colours, in a folder of its own, and its output is
printed once.
"""

import os
import subprocess
import sysconfig
import tempfile

from IPython import get_ipython

os.environ["PATH"] = sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"]
os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}
for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR"):
    os.environ.pop(name, None)
os.chdir(tempfile.mkdtemp())


def bash(line: str, cell: str) -> None:
    """Run a script and print what it writes to standard output; what goes wrong stops the page."""
    ended = subprocess.run(["bash", "-euo", "pipefail", "-c", cell], capture_output=True, text=True)
    print(ended.stdout, end="")
    if ended.returncode:
        raise RuntimeError(ended.stderr)


get_ipython().register_magic_function(bash, "cell")

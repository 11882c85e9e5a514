"""The numbers behind the page on the paper: `results/`, one file a figure, made by `python -m experiments.paper all`.

The code is in `paramfilter.paper`, so that whoever has installed the package can do the same.
"""

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

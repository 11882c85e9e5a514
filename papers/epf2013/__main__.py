"""Reproduce figures of the paper: `python -m papers.epf2013 [figure ...] [--again] [--pictures FOLDER]`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from papers.epf2013 import FIGURES, RESULTS, reproduce


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Reproduce figures of the paper; half an hour of CPU for all.")
    parser.add_argument("figures", nargs="*", default=["all"], help=f"all, or some of {', '.join(FIGURES)}")
    parser.add_argument("--again", action="store_true", help="compute what is there already")
    parser.add_argument("--pictures", help="a folder for the pictures; none are drawn without it")
    chosen = parser.parse_args(arguments)
    reproduce(chosen.figures, RESULTS, chosen.again, pictures=chosen.pictures)


if __name__ == "__main__":
    main()

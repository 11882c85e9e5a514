"""Compute and draw the figures, one after the other; what is there is not computed again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import jax
import numpyro
from tqdm import tqdm

import paramfilter as pf
from papers.epf2013.numbers import read, write
from papers.epf2013.table import FIGURES


def reproduce(
    names: Sequence[str],
    folder: str | Path,
    again: bool = False,
    *,
    pictures: str | Path | None = None,
    progress: bool | None = None,
) -> dict[str, Path]:
    """Reproduce figures of the paper.

    Numbers are written to `folder / name.json` as soon as a figure is done, so a run that was stopped goes on where it
    was. Pictures need Matplotlib: `pip install "paramfilter[plots]"`.

    Args:
        names: Of `FIGURES`, or "all".
        folder: Where the numbers go.
        again: Compute what is there already.
        pictures: Where pictures go, as PNG; None for no pictures.
        progress: Show a bar; None shows it on a terminal only.

    Returns:
        The file of each figure's numbers.
    """
    chosen = list(FIGURES) if "all" in names else list(names)
    unknown = [name for name in chosen if name not in FIGURES]
    if unknown:
        raise pf.errors.DataError(f"there is no figure {unknown[0]!r}; use one of {', '.join(FIGURES)}, or all.")
    files = {name: Path(folder) / f"{name}.json" for name in chosen}
    minutes = sum(FIGURES[name].cpu_minutes for name in chosen)
    layout = "{desc}: {percentage:3.0f}% |{bar}| {elapsed} so far, about {remaining} left"
    disable = None if progress is None else not progress
    with tqdm(total=minutes, bar_format=layout, disable=disable) as bar:
        for name, path in files.items():
            bar.set_description(name)
            if again or not path.exists():
                began = time.process_time()
                results = FIGURES[name].compute()
                seconds = round(time.process_time() - began, 1)
                versions = {"jax": jax.__version__, "numpyro": numpyro.__version__}
                write(path, {**results, "made_with": versions, "cpu_seconds": seconds})
            if pictures is not None:
                Path(pictures).mkdir(parents=True, exist_ok=True)
                FIGURES[name].draw(read(path)).savefig(Path(pictures) / f"{name}.png", dpi=150)
            bar.update(FIGURES[name].cpu_minutes)
    return files

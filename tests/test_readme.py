"""The README's example runs as printed and its posterior is right."""

import re
from pathlib import Path

import pytest
from compilations import compilations

import paramfilter as pf

MOST_PROGRAMS = 40
"""Compiled for README's example. It was 34 when this was written: an operation outside of `jit` adds one or more."""

README = Path(__file__).parent.parent / "README.md"


def test_readme_example_runs_and_learns_its_parameter(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    block = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    scope = {}
    with compilations() as count:
        exec(block.group(1), scope)  # noqa: S102 - the README is ours
    assert count[0] <= MOST_PROGRAMS
    assert "all is well" in capsys.readouterr().out
    assert (tmp_path / "a.png").stat().st_size > 10_000
    posterior, ys = scope["posterior"], scope["ys"]
    reference = pf.references.grid_posterior(scope["model"], ys)
    # 500 particles of a bootstrap filter: half a posterior sd is twice what docs/paper.md shows.
    error = (float(posterior.mean()["a"]) - reference.mean()["a"]) / reference.sd()["a"]
    assert abs(error) < 0.8
    assert float(posterior.sd()["a"]) == pytest.approx(float(reference.sd()["a"]), rel=0.25)

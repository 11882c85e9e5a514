"""The recipes of docs/ray.md run as they are printed."""

import functools
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.engines.fleet import log, make_versions, table

from paramfilter_engines.parts import Driver, Worker
from paramfilter_engines.ray import part_of

PAGE = Path(__file__).parent.parent.parent / "docs" / "ray.md"
RECIPES = dict(re.findall(r"^### (\w+)\n\n```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))


def test_the_page_has_these_recipes():
    assert [*RECIPES] == ["Polars", "DuckDB", "Dask"]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_makes_the_version_and_the_posteriors_of_a_batch(name, tmp_path, monkeypatch):
    library = pytest.importorskip(
        name.lower(), reason=f"NOT TESTED, no {name.lower()} here: use the env of tests.servers"
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events").mkdir()
    events = log(20, 3).select(["series", "seq", "y"])
    parquet.write_table(events.sort_by("seq"), "events/0.parquet")
    make = functools.partial(make_versions, tmp_path / "states")
    given = {
        "make_versions": make,
        "parquet": parquet,
        "pa": pa,
        "part_of": part_of,
        "Driver": Driver,
        "Worker": Worker,
    }
    exec(RECIPES[name], given | {name.lower(): library})  # noqa: S102
    states, outputs, _ = table().advance(table().empty(), events.sort_by("seq"))
    assert make().read().sort_by("series").equals(states.sort_by("series"))
    found = parquet.read_table("posteriors.parquet")
    assert len(found.filter(pa.compute.is_valid(found["phi_mean"]))) == len(outputs)

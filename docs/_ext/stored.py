"""Blocks that show stored results: Sphinx runs them while it reads a page, so the page needs no kernel.

The body of a `stored` block is Python, which the page does not show. The block shows the value of its last line: a
string is parsed as Markdown, a Matplotlib figure becomes a picture with the block's `alt` text. In a sentence, the role
{stored}`expression` shows a value. All blocks and roles of a page share one namespace, which starts with `results`,
`table` and `download`. An exception fails the build.
"""

import ast
import csv
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import matplotlib
from docutils import nodes
from docutils.parsers.rst import directives
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective, SphinxRole

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # blocks may import from `benchmarks` and `papers`
matplotlib.use("svg")


def results(name: str, folder: str = "benchmarks") -> Any:
    """Return the content of `<folder>/results/<name>.json`."""
    return json.loads((ROOT / folder / "results" / f"{name}.json").read_text())


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table."""
    header = list(header)
    cells = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in cells)


def download(name: str, header: Iterable[str], rows: Iterable[Iterable[object]], label: str) -> str:
    """Write `docs/tables/<name>.csv` and return a link to it, for tables that are too long for a page."""
    path = ROOT / "docs" / "tables" / f"{name}.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(header), *map(list, rows)])
    return f"[{label} (CSV)](/tables/{name}.csv)"


class Stored(SphinxDirective):
    """Run the content and show the value of its last line."""

    has_content = True
    option_spec: ClassVar = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        shown = value_of("\n".join(self.content), self.env, self.content_offset)
        if isinstance(shown, str):
            return self.parse_text_to_nodes(shown)
        if isinstance(shown, Figure):
            picture = Path(self.env.doctreedir) / f"{self.env.docname}-{self.lineno}.svg"
            shown.savefig(picture)
            uri = os.path.relpath(picture, Path(self.env.doc2path(self.env.docname)).parent)
            return [nodes.figure("", nodes.image(uri=uri, alt=self.options["alt"]))]
        return []


class StoredInSentence(SphinxRole):
    """Show the value of an expression."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        return [nodes.Text(str(value_of(self.text, self.env, self.lineno - 1)))], []


def value_of(code: str, env: BuildEnvironment, num_lines_before: int) -> Any:
    """Run code in the namespace of the page, and return the value of its last line; None if that is a statement."""
    page = env.doc2path(env.docname)
    namespace = env.temp_data.setdefault("stored", {"results": results, "table": table, "download": download})
    try:
        tree = ast.increment_lineno(ast.parse(code), num_lines_before)
        if isinstance(last := tree.body[-1], ast.Expr):
            tree.body[-1] = ast.Assign([ast.Name("_", ast.Store())], last.value)
        exec(compile(ast.fix_missing_locations(tree), page, "exec"), namespace)  # noqa: S102, a page of our own
    except Exception as error:
        message = f"{page}, stored after line {num_lines_before}: {type(error).__name__}: {error}"
        raise ExtensionError(message) from error
    return namespace.pop("_", None)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("stored", Stored)
    app.add_role("stored", StoredInSentence())
    return {"parallel_read_safe": True}

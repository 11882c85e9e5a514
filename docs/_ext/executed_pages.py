"""Which pages with code cells are executed: all with `sphinx -t full`, otherwise those that have changed.

`executed.json` has the digest of each page that was last executed without an error, taken of its code cells and of the
library's syntax, so that prose and comments do not count. A page that still has this digest is built as strictly as any
other, but without outputs.
"""

import ast
import functools
import hashlib
import json
import re
import time
from pathlib import Path

from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.application import Sphinx
from sphinx.config import Config

DOCS = Path(__file__).parents[1]
LIBRARY = DOCS.parent / "src" / "paramfilter"
RECORD = DOCS / "executed.json"
STARTED = time.time()

CELL = re.compile(r"^```\{code-cell\}.*?^```$", flags=re.DOTALL | re.MULTILINE)

APART = {"cli": "shell_cells"} | {name: f"paramfilter.{name}" for name in ("paper", "serving", "streaming")}
"""Packages that the rest of the library does not import, and what a page that uses them contains."""
HELPERS = (DOCS / "_ext" / "shell_cells.py", DOCS.parent / "tests" / "mistakes.py")


@functools.cache
def digests() -> dict[str, str]:
    """Return the digest of each page with code cells, as the files were at the first call."""
    pages = {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
    return {name: _digest(text) for name, text in pages.items() if "\n```{code-cell}" in text}


def _digest(page: str) -> str:
    unused = {package for package, word in APART.items() if word not in page}
    sources = [path for path in sorted(LIBRARY.rglob("*.py")) if path.relative_to(LIBRARY).parts[0] not in unused]
    sources += [path for path in HELPERS if path.stem in page]
    parts = [*CELL.findall(page), *map(_syntax, sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _syntax(path: Path) -> str:
    return ast.dump(ast.parse(path.read_text()))


def skip_unchanged(app: Sphinx, config: Config) -> None:
    """Exclude pages whose digest is recorded from execution."""
    if not app.tags.has("full"):
        unchanged = dict(_recorded().items() & digests().items())
        config.nb_execution_excludepatterns += [f"docs/{page}" for page in sorted(unchanged)]


def record_executed(app: Sphinx, exception: Exception | None) -> None:
    """Record the pages that this build has executed."""
    if exception:
        return
    record = {page: digest for page, digest in _recorded().items() if page in digests()}
    for page, digest in digests().items():
        execution = NbMetadataCollector.get_exec_data(app.env, page.removesuffix(".md"))
        if execution and execution["succeeded"] and execution["mtime"] > STARTED:
            record[page] = digest
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def _recorded() -> dict[str, str]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("config-inited", skip_unchanged)
    app.connect("build-finished", record_executed)
    return {"parallel_read_safe": True}

"""Which pages with code cells are executed: all with `sphinx -t full`, otherwise those that have changed.

`executed.json` has the digest of each page that was last executed without an error: of its code cells, and of the
syntax of what they import from this repository, directly or not. A page that has it still is built without outputs.
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
PLACES = [DOCS.parent / name for name in ("", "src", "tests", "docs/_ext")]  # from which pages import
RECORD = DOCS / "executed.json"
STARTED = time.time()

CELL = re.compile(r"^```\{code-cell\}.*?^```$", flags=re.DOTALL | re.MULTILINE)
IMPORT = re.compile(r"^ *(?:from +(\w+)\S* +import|import +([\w., ]+)$)", flags=re.MULTILINE)


@functools.cache
def digests() -> dict[str, str]:
    """Return the digest of each page with code cells, as the files were at the first call."""
    pages = {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
    return {name: _digest(text) for name, text in pages.items() if "\n```{code-cell}" in text}


def _digest(page: str) -> str:
    cells = "\0".join(CELL.findall(page))
    found, waiting = {}, {"paramfilter"} | _imported(cells)  # cells of the shell call the command
    while waiting:
        found[name], imported = _module(name := waiting.pop())
        waiting |= imported - found.keys()
    return hashlib.sha256("\0".join([cells, *(found[name] for name in sorted(found))]).encode()).hexdigest()


@functools.cache
def _module(name: str) -> tuple[str, set[str]]:
    """Return the syntax of a module or package of this repository, and what it imports; nothing for any other word."""
    paths = [path for place in PLACES for path in (*place.glob(f"{name}.py"), *(place / name).rglob("*.py"))]
    texts = [path.read_text() for path in sorted(paths) if ".environments" not in path.parts]
    return "\0".join(ast.dump(ast.parse(text)) for text in texts), _imported("\n".join(texts))


def _imported(text: str) -> set[str]:
    return {word for words in IMPORT.findall(text) for word in re.findall(r"\w+", " ".join(words))}


def skip_unchanged(app: Sphinx, config: Config) -> None:
    """Exclude pages whose digest is recorded from execution."""
    if not app.tags.has("full"):
        unchanged = dict(json.loads(RECORD.read_text()).items() & digests().items())
        config.nb_execution_excludepatterns += [f"docs/{page}" for page in sorted(unchanged)]


def record_executed(app: Sphinx, exception: Exception | None) -> None:
    """Record the pages that this build has executed."""
    if exception:
        return
    record = {page: digest for page, digest in json.loads(RECORD.read_text()).items() if page in digests()}
    for page, digest in digests().items():
        execution = NbMetadataCollector.get_exec_data(app.env, page.removesuffix(".md"))
        if execution and execution["succeeded"] and execution["mtime"] > STARTED:
            record[page] = digest
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("config-inited", skip_unchanged)
    app.connect("build-finished", record_executed)
    return {"parallel_read_safe": True}

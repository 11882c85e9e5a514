"""A page for each warning, written at build time from the texts that the library prints, so that they are one text."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from paramfilter.diagnostics import CODES


def write_pages(app: Sphinx) -> None:
    """Write `warnings/W01.md` and so on, beside the index."""
    for code in CODES:
        fixes = "\n".join(f"- {fix}" for fix in code.fixes)
        text = f"# {code.code}: {code.title}\n\n## What it means\n\n{code.meaning}\n\n## What to try\n\n{fixes}\n"
        page = Path(app.srcdir) / "warnings" / f"{code.code}.md"
        if not page.exists() or page.read_text() != text:  # an unchanged page is not built again
            page.write_text(text)


def setup(app: Sphinx) -> dict:
    """Hook into the build before pages are read."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}

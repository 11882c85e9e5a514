"""Docstrings are Markdown: tables, fences and formulas look in the reference as they do in an editor.

Sphinx takes docstrings for reStructuredText, where `|x|` is a substitution, `*args` starts an emphasis and an
indented formula a quotation. Here a docstring becomes

1. its first paragraph, escaped, which is also the line shown in tables of contents;
2. the rest, handed to the MyST parser. Sections such as "Args:" turn into a bold word and a list, doctests
   into fenced code.
"""

import re
import textwrap

from docutils import nodes
from docutils.utils import new_document
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

LISTED_SECTIONS = {"Args", "Attributes", "Raises"}
PLAIN_SECTIONS = {"Returns", "Yields", "Example", "Examples", "Reference", "References", "Note", "Notes"}
SECTION = re.compile(rf"^({'|'.join(LISTED_SECTIONS | PLAIN_SECTIONS)}):[ ]*\n((?:[ ]+.*\n?|\n)*)", flags=re.MULTILINE)


class MarkdownDocstring(SphinxDirective):
    """Parse the content as Markdown, the way `include` does with another parser."""

    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        document = new_document(f"docstring of {self.arguments[0]}", self.state.document.settings)
        MystParser().parse("\n".join(self.content), document)
        return document.children


def convert(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Replace the lines of a docstring, in place; called by autodoc for each one."""
    summary, _, rest = "\n".join(lines).strip().partition("\n\n")
    if not summary:
        return
    if summary.startswith(">>>"):
        summary, rest = "", f"{summary}\n\n{rest}"
    body = fence_doctests(open_sections(rest)).splitlines()
    lines[:] = [
        *escape(summary).splitlines(),
        "",
        f".. markdown-docstring:: {name}",
        "",
        *(f"   {line}" for line in body),
        "",
    ]


def escape(paragraph: str) -> str:
    """Write a paragraph of Markdown as reStructuredText: code stays code, and no other sign has a meaning."""
    pieces = re.split(r"(`+[^`]+`+)", paragraph)
    return "".join(
        f"``{piece.strip('`')}``" if piece.startswith("`") else re.sub(r"([\\*|_`])", r"\\\1", piece)
        for piece in pieces
    )


def open_sections(text: str) -> str:
    """Turn "Args:" and its indented body into a bold word and a list; other sections are set flush left."""
    parts = SECTION.split(text)
    converted = [parts[0]]
    for section, indented, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        body = textwrap.dedent(indented)
        if section in LISTED_SECTIONS:
            body = re.sub(r"^(\*{0,2}\w[\w.]*)(?: \([^)]*\))?: ", r"- `\1`: ", body, flags=re.MULTILINE)
            body = re.sub(r"^[ ]+(?=\S)", "  ", body, flags=re.MULTILINE)
        converted += [f"**{section}**\n\n{body}\n\n", after]
    return "".join(converted)


def fence_doctests(text: str) -> str:
    """Put each doctest, up to the next blank line, between fences; to Markdown ">>>" is a quotation."""
    return re.sub(
        r"^([ ]*)>>> (?:.*\S.*\n?)+",
        lambda block: f"```pycon\n{textwrap.dedent(block.group(0)).rstrip()}\n```\n",
        text,
        flags=re.MULTILINE,
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("markdown-docstring", MarkdownDocstring)
    app.connect("autodoc-process-docstring", convert)
    return {"parallel_read_safe": True}

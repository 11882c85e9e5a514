"""The directive `warning-codes`: one section for each warning, from the texts that the library prints."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from paramfilter.diagnostics import CODES

CODE = re.compile(
    r"""[\w.]*\w\((?:[^()]|\([^()]*\))*\)  # a call
    |\b\w+=[\w.]+(?:\(\))?                 # an argument
    |\b(?:info|state|history|posterior|dist)\.[\w.]*\w
    |\b\w+(?:_\w+)+\b                      # a name with an underscore
    |\b(?:TaylorOfMean|OutlierGate|NaN)\b""",
    flags=re.VERBOSE,
)


class WarningCodes(SphinxDirective):
    """Show all codes: what each means and what to try."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(map(_section, CODES)), allow_section_headings=True)


def _section(code) -> str:
    fixes = "\n".join(f"- {_with_code(fix)}" for fix in code.fixes)
    return f"({code.code})=\n## {code.code}: {code.title}\n\n{_with_code(code.meaning)}\n\nWhat to try:\n\n{fixes}\n"


def _with_code(text: str) -> str:
    """Set calls and names in code type; in a terminal they are plain."""
    return CODE.sub(lambda found: f"`{found.group(0)}`", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("warning-codes", WarningCodes)
    return {"parallel_read_safe": True}

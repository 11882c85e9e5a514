"""Show cells that begin with `%%bash` as shell code, and those with `%%writefile NAME` under the name of the file."""

import re

from docutils import nodes
from sphinx.application import Sphinx

FILE = re.compile(r"%%writefile (\S+)\n")


def hide_magic(app: Sphinx, doctree: nodes.document) -> None:
    """Replace the first line of such cells, in place; called by Sphinx for each page."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext()
        if text.startswith("%%bash\n"):
            shown, block["language"] = text.removeprefix("%%bash\n"), "bash"
        elif FILE.match(text):
            shown = FILE.sub(r"# \1\n", text, count=1)
        else:
            continue
        block.rawsource = shown
        block.children = []
        block.append(nodes.Text(shown))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-read", hide_magic)
    return {"parallel_read_safe": True}

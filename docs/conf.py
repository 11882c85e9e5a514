"""How the pages are built: Sphinx reads Markdown, runs its examples, takes the reference from docstrings.

Strict by intention: a warning fails the build, and so does an example that raises. From the root:

    sphinx-build -W --keep-going docs docs/_build/html

executes the pages that have changed since they were last executed; with `-t full`, all pages have their outputs.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "docs" / "_ext"))

project = "paramfilter"
author = "The paramfilter developers"
copyright = author
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
version = release

extensions = [
    "executed_pages",
    "markdown_docstrings",
    "shell_listing",
    "stored",
    "warning_pages",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "jupyter_execute", ".jupyter_cache"]
templates_path = ["_templates"]

# Pages with code cells are executed, unless `executed_pages` leaves them out.
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # progress bars and notices of the notebook kernel
nb_render_markdown_format = "myst"  # tables made by code are tables
nb_merge_streams = True  # one box for each cell
nb_execution_excludepatterns = ["reference/generated/*"]
suppress_warnings = ["myst-nb.lexer"]  # a page that is not executed names no language for its cells

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "substitution"]
myst_heading_anchors = 3

# The reference follows the docstrings. Names are documented once, where users import them from; the modules
# behind show the story of the file.
autosummary_generate = True
autosummary_context = {
    "public_modules": [
        "paramfilter",
        "paramfilter.particles",
        "paramfilter.config",
        "paramfilter.models",
        "paramfilter.plots",
        "paramfilter.proposals",
        "paramfilter.references",
        "paramfilter.resampling",
        "paramfilter.errors",
        "paramfilter.inspect",
        "paramfilter.nodes",
        "paramfilter.results",
        "paramfilter.structural",
        "paramfilter.tables",
        "paramfilter.testing",
        "paramfilter.warm_start",
    ],
    "without_submodules": [
        "paramfilter.models",
        "paramfilter.plots",
    ],  # each holds one function, of the module's own name
}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"

html_theme = "pydata_sphinx_theme"
html_title = "paramfilter"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "header_links_before_dropdown": 6,  # fits in one line at 1280 pixels
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "show_nav_level": 1,
    "show_toc_level": 2,
}


def _first_python_block(markdown: str) -> str:
    """Return the first Python example of a Markdown text, fences and all, so that it is written only once."""
    block = re.search(r"^```python\n.*?^```$", markdown, flags=re.DOTALL | re.MULTILINE)
    return block.group(0) if block else "*(README has no example.)*"


myst_substitutions = {"first_example": _first_python_block((ROOT / "README.md").read_text())}

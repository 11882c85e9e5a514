"""One process: a log of events, `paramfilter.tables`, one SQLite file, and HTTP."""

from paramfilter.errors import extra

for _module in ("jinja2", "msgspec", "pyarrow", "uvicorn"):
    extra(_module, "serve")

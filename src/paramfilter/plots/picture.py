"""What makes a picture of a function that draws: one signature, one look and one title for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from paramfilter.errors import extra
from paramfilter.plots.contents import Asked, heading_of, opened, require_known
from paramfilter.plots.style import EXTRA, LOOK, close_unless_shown, label_few_texts, set_title

ARGUMENTS = """
    Args:
        results: A result of `to_datatree`, its path, `(state, history)` with or without the data, or a dict of these
            to compare.
        names: What to draw, such as "phi" or "phi[0]"; None for all, up to a number that has room.
        truth: Known values by name; with a leading time axis, values that change.
        level: Of the wide interval, 0.9 by default; a dark one holds half of the mass.
        last: Number of steps to draw, up to the last; None for all.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
"""


def picture(draw: Callable[[dict[str, Any], Asked], Any]):
    """Turn a function that draws opened results into a picture.

    The result has no annotation, so that tools read the signature off `drawn`: it stands there and nowhere else.
    """

    def drawn(
        results: Any,
        *,
        names: Iterable[str] | None = None,
        truth: Mapping[str, Any] | None = None,
        level: float = 0.9,
        last: int | None = None,
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Any:
        trees = opened(results, last)
        require_known(trees, truth or {})
        names = (names,) if isinstance(names, str) else names
        with extra("matplotlib", EXTRA).rc_context(LOOK):
            figure = draw(trees, Asked(None if names is None else tuple(names), truth or {}, level, last, labels or {}))
            label_few_texts(figure)
            set_title(figure, heading_of(trees) if title is None else title)
        close_unless_shown(figure)
        return figure

    # Not functools.wraps, whose __wrapped__ makes help() show the signature of `draw`.
    for part in ("__module__", "__name__", "__qualname__"):
        setattr(drawn, part, getattr(draw, part))
    drawn.__doc__ = f"{(draw.__doc__ or '').rstrip()}\n{ARGUMENTS}"
    return drawn

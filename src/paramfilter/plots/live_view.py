"""A picture that follows a run, in a notebook or a window."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from paramfilter.errors import extra
from paramfilter.filters import Filter
from paramfilter.plots.contents import opened
from paramfilter.plots.parameters import parameters
from paramfilter.plots.style import EXTRA
from paramfilter.running import History, concat_histories, history_row

SECONDS_BETWEEN = 0.5


class LiveView:
    """Draw the parameters of a run again and again while it goes on.

        view = pf.plots.LiveView(filter)
        for y in stream:
            state, info = filter.step(state, y)
            view.update(state, info)
        view.show(state)

    In a notebook the picture is shown below the cell and replaced in place; elsewhere `view.figure` is the last one.

    Args:
        filter: The filter that is run.
        names: Parameters to draw; None for the first twelve.
        truth: Known values by name, drawn as dashed lines.
        last: Number of steps to keep and draw, 500 by default; an endless stream takes a fixed amount of memory.
        every: Seconds between two pictures, 0.5 by default.
        draw: The picture to draw from `(state, history)`; `parameters` by default, or for example `dashboard`.
    """

    def __init__(
        self,
        filter: Filter,
        *,
        names: Iterable[str] | None = None,
        truth: Mapping[str, Any] | None = None,
        last: int = 500,
        every: float = SECONDS_BETWEEN,
        draw: Any = parameters,
    ):
        self.filter = filter
        self.figure: Any = None
        self.history: History | None = None
        self._options = {"names": names, "truth": truth}
        self._last, self._every, self._draw = last, every, draw
        self._drawn_at, self._handle = -every, None

    def update(self, state: Any, info: Any) -> None:
        """Take in one step, and draw if enough time has passed.

        Args:
            state: The filter's state after the step.
            info: What the step returned.
        """
        row = history_row(self.filter, state, info)
        self.history = row if self.history is None else _cut(concat_histories(self.history, row), self._last)
        if time.monotonic() - self._drawn_at >= self._every:
            self.show(state)

    def show(self, state: Any) -> None:
        """Draw what was taken in so far, whatever the time; after the last step this completes the picture.

        Args:
            state: The filter's state after the last step.
        """
        trees = opened((state, self.history))
        window = {"last": self._last} if int(state.time) > self._last else {}
        self.figure = self._draw(trees, **self._options, **window)
        self._drawn_at = time.monotonic()
        self._display()

    def _display(self) -> None:
        """Replace the picture in a notebook; without one there is nothing to do."""
        if not extra("matplotlib", EXTRA).is_interactive() and not _in_notebook():
            return
        display = extra("IPython.display", EXTRA)
        if self._handle is None:
            self._handle = display.display(self.figure, display_id=True)
        else:
            self._handle.update(self.figure)


def _in_notebook() -> bool:
    try:
        return extra("IPython", EXTRA).get_ipython() is not None
    except ImportError:
        return False


def _cut(history: History, last: int) -> History:
    jax = extra("jax", EXTRA)
    return jax.tree.map(lambda leaf: leaf[-last:], history)

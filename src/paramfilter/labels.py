"""The single numbers of a named array, and what each is called in tables, pictures and posteriors.

>>> [str(one) for one in components_of("phi", (2,))], [str(one) for one in components_of("q", ())]
(['phi[0]', 'phi[1]'], ['q'])
>>> str(Component("cov", (0, 1)))
'cov[0,1]'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

PIT = "pit_"
"""In front of the names of what was observed: where it lay among the forecasts."""


class Component(NamedTuple):
    """One number of a named array; as a string, its label.

    Attributes:
        name: Of the array.
        place: Of the number in it; empty if it stands alone.
    """

    name: str
    place: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}[{','.join(map(str, self.place))}]" if self.place else self.name


def in_brief(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """List names with their sizes, for one line of text.

    >>> in_brief({"phi": (2,), "cov": (2, 3), "q": ()})
    'phi[2], cov[2,3], q'
    """
    return ", ".join(f"{name}[{','.join(map(str, shape))}]" if shape else name for name, shape in shapes.items())


def prior_in_brief(prior: Mapping[str, Any]) -> str:
    """List the parameters of a prior with their sizes."""
    return in_brief({name: tuple(one.shape()) if hasattr(one, "shape") else () for name, one in prior.items()})


def components_of(name: str, shape: tuple[int, ...]) -> list[Component]:
    """Return the components of an array by its name and shape, in the order of its memory."""
    return [Component(name, place) for place in np.ndindex(shape)]

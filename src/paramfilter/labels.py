"""The single numbers of a named array, and what each is called in tables, pictures and posteriors.

>>> [str(one) for one in components_of("phi", (2,))], [str(one) for one in components_of("q", ())]
(['phi[0]', 'phi[1]'], ['q'])
>>> str(Component("cov", (0, 1)))
'cov[0,1]'
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


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


def components_of(name: str, shape: tuple[int, ...]) -> list[Component]:
    """Return the components of an array by its name and shape, in the order of its memory."""
    return [Component(name, place) for place in np.ndindex(shape)]

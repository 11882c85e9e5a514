"""Where nothing was observed, shaded behind what was believed meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paramfilter.errors import extra
from paramfilter.plots.style import EXTRA, GAP, thinned


def shade_gaps(axes: Sequence[Any], tree: Any) -> None:
    """Show where nothing was observed, on axes that share their times and have their lines already."""
    if "observed_data" not in tree.children:
        return
    first, last, share = _gaps(tree)
    times = np.asarray(axes[0].convert_xunits(tree["observed_data"]["time"].to_numpy()), float)
    around = np.median(np.diff(times)) / 2 if len(times) > 1 else 0.5
    left, right = times[first] - around, times[last] + around
    bottom, top = np.zeros(len(left)), np.ones(len(left))
    corners = np.stack([(left, bottom), (right, bottom), (right, top), (left, top)]).transpose(2, 0, 1)
    polygons = extra("matplotlib.collections", EXTRA).PolyCollection
    colours = extra("matplotlib.colors", EXTRA).to_rgba_array(GAP, share)
    for axis in axes:
        across = axis.get_xaxis_transform()
        axis.add_collection(polygons(corners, transform=across, color=colours, linewidth=0, zorder=0), autolim=False)


def _gaps(tree: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where nothing was observed: first and last place of each stretch, and how much of it is missing.

    A long run is cut into `MOST_POINTS` stretches, so that fifty thousand gaps cost no more than a few; neighbours of
    which the same share is missing are one stretch.
    """
    seen = tree["observed_data"].data_vars.values()
    missing = np.all([np.isnan(np.asarray(one, float)).reshape(len(one), -1).all(axis=1) for one in seen], axis=0)
    starts = np.arange(len(missing))[thinned(len(missing))]
    share = np.add.reduceat(missing, starts, dtype=float) / np.diff(starts, append=len(missing))
    begins = np.flatnonzero(np.diff(share, prepend=-1.0))
    first, share = starts[begins], share[begins]
    last = np.append(first[1:], len(missing)) - 1
    return first[share > 0], last[share > 0], share[share > 0]

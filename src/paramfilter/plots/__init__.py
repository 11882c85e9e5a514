"""Pictures of results: one call each, one signature, a figure comes back.

    figure = pf.plots.parameters(tree)                          # a result
    figure = pf.plots.parameters("run.nc", truth={"phi": 0.9})  # a saved one
    figure = pf.plots.parameters({"ours": tree, "SIR": other})  # compared

`names` picks variables, `truth` draws known values, `level` is that of the intervals, `title` stands on top. Colours
are those of Okabe and Ito, which people who see few colours can tell apart. Long series are thinned before they are
drawn.
"""

from paramfilter.plots.curves import convergence, error_against_order
from paramfilter.plots.futures import forecast
from paramfilter.plots.moving import animation
from paramfilter.plots.rank_counts import ranks
from paramfilter.plots.ribbons import parameters, state
from paramfilter.plots.shapes import pairs, prior_posterior
from paramfilter.plots.strips import health

__all__ = [
    "animation",
    "convergence",
    "error_against_order",
    "forecast",
    "health",
    "pairs",
    "parameters",
    "prior_posterior",
    "ranks",
    "state",
]

"""Pictures of results: one call each, one signature, a figure comes back.

    figure = pf.plots.parameters(tree)                          # a result
    figure = pf.plots.parameters("run.nc", truth={"phi": 0.9})  # a saved one
    figure = pf.plots.parameters({"ours": tree, "SIR": other})  # compared

`names` picks variables, `truth` draws known values, `level` is that of the intervals, `title` stands on top. Colours
are those of Okabe and Ito, which people who see few colours can tell apart. Long series are thinned before they are
drawn.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

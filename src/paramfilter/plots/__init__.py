"""Draw results: one call for each picture, one signature for all, and a Matplotlib figure comes back.

    figure = pf.plots.parameters(tree)                          # a result of pf.to_datatree
    figure = pf.plots.parameters((state, history))              # what pf.run returned
    figure = pf.plots.parameters("run.nc", truth={"phi": 0.9})  # a saved result
    figure = pf.plots.parameters({"EPF": tree, "SIR": other})   # several results, compared

`names` picks variables, `truth` draws known values, `level` sets the width of the intervals, `last` draws the last
steps only, and `title` replaces the title, which by default names the model, the filter and its size. `labels` replaces
the texts at axes, for example to add units: `labels={"x": "level, m"}`. Colors are taken from Okabe and Ito, each with
a line style of its own. Long series are thinned before they are drawn.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Slow and trusted answers: what a filter should have said.

`kalman_grid` is exact for models that are linear and Gaussian given theta; `grid_posterior` takes any model with a
scalar state. Both integrate over one or two unknowns by quadrature, in float64 whatever the caller's setting, and can
say how accurate they are. `pmmh` samples instead, for any number of unknowns, and converges to the exact posterior as
it is given more time.

| the model | the reference | its error |
|---|---|---|
| linear-Gaussian given theta | `kalman_grid(model, ys)` | rounding |
| any, with a scalar state | `grid_posterior(model, ys)` | below 1e-6 posterior sds for smooth densities |
| any, with any number of unknowns | `pmmh(key, model, ys)` | Monte Carlo, reported as `standard_error` and `rhat` |
"""

from paramfilter.references.grid import grid_posterior
from paramfilter.references.kalman import kalman_grid
from paramfilter.references.metropolis import DrawPosterior, pmmh
from paramfilter.references.posterior import Accuracy, GridPosterior

__all__ = ["Accuracy", "DrawPosterior", "GridPosterior", "grid_posterior", "kalman_grid", "pmmh"]

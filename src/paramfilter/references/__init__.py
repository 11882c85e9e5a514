"""Slow and trusted answers: what a filter should have said.

`kalman_grid` is exact for models that are linear and Gaussian given theta; `grid_posterior` takes any model. Both
integrate over one or two unknowns by quadrature, in float64 whatever the caller's setting, and can say how accurate
they are.

| the model | the reference | its error |
|---|---|---|
| linear-Gaussian given theta | `kalman_grid(model, ys)` | rounding |
| any, with a scalar state | `grid_posterior(model, ys)` | below 1e-6 posterior sds for smooth densities |
| any | `grid_posterior(model, ys, method=Particles())` | Monte Carlo, reported as `standard_error` |
"""

from paramfilter.references.grid import grid_posterior
from paramfilter.references.kalman import kalman_grid
from paramfilter.references.particles import Particles
from paramfilter.references.posterior import Accuracy, GridPosterior
from paramfilter.references.state_grid import StateGrid

__all__ = ["Accuracy", "GridPosterior", "Particles", "StateGrid", "grid_posterior", "kalman_grid"]

"""Slow and trusted answers: what a filter should have said.

`kalman_grid` is exact for models that are linear and Gaussian given theta; `grid_posterior` takes any model. Both
integrate over one or two unknowns by quadrature, in float64 whatever the caller's setting, and can say how accurate
they are. `pmmh` and `SMC2` sample instead, for any number of unknowns, and converge to the exact posterior as they are
given more time.

| the model | the reference | its error |
|---|---|---|
| linear-Gaussian given theta | `kalman_grid(model, ys)` | rounding |
| any, with a scalar state | `grid_posterior(model, ys)` | below 1e-6 posterior sds for smooth densities |
| any | `grid_posterior(model, ys, method=Particles())` | Monte Carlo, reported as `standard_error` |
| any, with any number of unknowns | `pmmh(key, model, ys)` | Monte Carlo, reported as `standard_error` and `rhat` |
| the same, one observation at a time | `SMC2(model)` | Monte Carlo |
"""

from paramfilter.references.draws import DrawPosterior
from paramfilter.references.grid import grid_posterior
from paramfilter.references.kalman import kalman_grid
from paramfilter.references.metropolis import pmmh
from paramfilter.references.particles import Particles
from paramfilter.references.posterior import Accuracy, GridPosterior
from paramfilter.references.smc2 import SMC2, Smc2State
from paramfilter.references.state_grid import StateGrid

__all__ = [
    "Accuracy",
    "DrawPosterior",
    "GridPosterior",
    "Particles",
    "SMC2",
    "Smc2State",
    "StateGrid",
    "grid_posterior",
    "kalman_grid",
    "pmmh",
]

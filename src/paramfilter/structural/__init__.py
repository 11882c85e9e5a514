"""Structural time series models: a sum of components and a distribution of the observation.

    eta_t = h(inputs_t)' x_t,    x_t = A x_{t-1} + N(0, Q),    y_t ~ observation(eta_t)

Each component (a trend, a season, a regression) adds its block to x, A, Q and h. The result is a `StateSpaceModel`.

A. Harvey, Forecasting, Structural Time Series Models and the Kalman Filter (1989); M. West and J. Harrison, Bayesian
Forecasting and Dynamic Models (1997).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

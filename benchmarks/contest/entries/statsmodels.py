# /// script
# dependencies = ["statsmodels==0.15.0", "paramfilter"]
#
# [tool.contest.maximum_likelihood]
# problems = ["ar1", "tracking", "multispecies", "common_factor"]
# reason = "linear and Gaussian models only"
# refits = true
# ///
"""Maximum likelihood by `statsmodels`: `python -m benchmarks.contest enter statsmodels`.

A model of the library's `MLEModel` with the matrices of the problem, fitted by its default optimizer (L-BFGS, at most
50 turns, more only if it has not converged) in unconstrained coordinates, from the prior's middle. The answer is the
maximum, with standard errors by the curvature there. It knows no prior: not the posterior mean even where exact. There
is one size. `append` goes on from a fit with the library's own method and its start at the last maximum.
"""

from __future__ import annotations

import warnings
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from statsmodels.tools.numdiff import approx_hess
from statsmodels.tsa.statespace.mlemodel import MLEModel

from benchmarks.contest.models.flat import model_of
from benchmarks.contest.task import Algorithm, Posterior, Task, serve
from paramfilter.inspect.linear_gaussian import LinearModel
from paramfilter.numerics.kalman import predicted

MOST_TURNS = 500
SETTINGS = {"disp": False, "cov_type": "none", "optim_score": "approx", "optim_complex_step": False}
"""Gradients by differences: the compiled matrices take no complex numbers."""


@cache
def matrices_of(problem: str):
    """Return the parameters, and compiled functions from coordinates to the matrices of the model and to theta.

    They are not part of a fit: `append` makes its model anew each time.
    """
    model = model_of(problem)
    shape = model.initial(model.parameters.constrain(jnp.zeros(model.parameters.dimension)), None).shape()
    linear = LinearModel(model, int(np.prod(shape)), lambda x: jnp.reshape(x, shape), "statsmodels", "")

    def matrices(z):
        theta = model.parameters.constrain(z)
        first, move, look = linear.initial(theta, None), linear.move(theta, None), linear.look(theta, None)
        noise = jnp.diag(look["R"] ** 2) if look["R"].ndim == 1 else look["R"]
        start = predicted(first.mean, first.covariance, move)
        return *start, move["A"], move["b"], move["Q"], look["H"], look["d"], noise

    model.parameters.prior_draws  # noqa: B018  which are drawn when they are first asked for
    return model.parameters, jax.jit(matrices), jax.jit(model.parameters.constrain)


class Linear(MLEModel):
    """The problem's model; the library's first state is x_1."""

    def __init__(self, ys: np.ndarray, problem: str):
        self.parameters, self.matrices, self.constrain = matrices_of(problem)
        size = len(np.asarray(self.matrices(jnp.zeros(self.parameters.dimension))[0]))
        super().__init__(ys, k_states=size, k_posdef=size, loglikelihood_burn=0)
        self.problem = problem
        self["selection"] = np.eye(size)

    def clone(self, endog, exog=None, **options):
        """Make the model of other data, which `append` asks for."""
        return Linear(endog, self.problem)

    @property
    def param_names(self):
        return list(self.parameters.coordinate_names)

    @property
    def start_params(self):
        return np.mean(self.parameters.prior_draws, axis=0).astype(float)

    def update(self, params, **options):
        params = super().update(params, **options)
        found = [np.asarray(part, float) for part in self.matrices(jnp.asarray(np.real(params), float))]
        mean, covariance, move, drift, noise, look, shift, seen = found
        self.ssm.initialize_known(mean, covariance)
        self["transition"], self["state_cov"], self["design"], self["obs_cov"] = move, noise, look, seen
        self["state_intercept"], self["obs_intercept"] = drift[:, None], shift[:, None]


def maximum(task: Task):
    """Yield the likelihood's maximum for each time, with standard errors on the natural scale."""
    for time in task.times:
        model = Linear(task.ys[:time], task.problem)
        found = model.fit(**SETTINGS)
        if not found.mle_retvals["converged"]:
            found = model.fit(np.asarray(found.params), maxiter=MOST_TURNS, **SETTINGS)
        z = np.asarray(found.params)
        yield on_natural_scale(model, z, np.linalg.pinv(-approx_hess(z, model.loglike)))


def append(task: Task):
    """Yield the maximum at the first time, and after each of the others by `append` with a refit."""
    model = Linear(task.ys[: task.times[0]], task.problem)
    found, seen = model.fit(**SETTINGS), task.times[0]
    for time in task.times:
        if time > seen:
            found = found.append(task.ys[seen:time], refit=True, fit_kwargs=SETTINGS)
            seen = time
        z = np.asarray(found.params)
        yield on_natural_scale(model, z, np.linalg.pinv(-approx_hess(z, found.model.loglike)))


def on_natural_scale(model: Linear, z: np.ndarray, covariance: np.ndarray) -> Posterior:
    """Carry a Gaussian of coordinates to the parameters by its slope."""
    at = jnp.asarray(z, float)
    mean = {name: np.asarray(value) for name, value in model.constrain(at).items()}
    slopes = jax.jacfwd(model.constrain)(at)
    variance = lambda slope: np.einsum("...i,ij,...j->...", slope, covariance, slope)
    sd = {name: np.sqrt(np.maximum(variance(np.asarray(slope, float)), 0)) for name, slope in slopes.items()}
    return Posterior(mean, sd)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    serve(
        {"maximum_likelihood": Algorithm(maximum, refits=True), "append": Algorithm(append)},
        giving_up=(np.linalg.LinAlgError,),
    )

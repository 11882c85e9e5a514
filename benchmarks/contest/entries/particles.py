# /// script
# dependencies = ["particles==0.4", "numpy<2"]
#
# [tool.contest.smc2]
# num_theta = [200, 400, 1000]
# num_x = [100, 200, 300]
# compiles = false
#
# [tool.contest.pmmh]
# num_iterations = [100, 300, 1000, 3000]
# num_x = [100, 100, 300, 300]
# compiles = false
# refits = true
# ///
"""SMC2 and PMMH by `particles` 0.4: `python -m benchmarks.contest enter particles`.

Everything is the library's default, or what its tutorial on Bayesian estimation does. Inside are guided filters where
the model is Gaussian enough (sin, star, ar1, nutria, tracking, multispecies, common_factor and the voltage of
fitzhugh_nagumo) and bootstrap filters else. SMC2 is waste-free with chains of 10 that doubles its inner filters when
less than a tenth of the moves is accepted, PMMH with an adaptive random walk on the natural scale, its first tenth
discarded. The tutorial says that the identity can be a terrible first guess of the random walk's covariance, so PMMH
starts from the prior's.
"""

from __future__ import annotations

import warnings

import numpy as np
import particles
from numpy import random  # noqa: TID251  `particles` draws from numpy's global state
from particles import mcmc, smc_samplers

from benchmarks.contest.models.in_particles import filter_for, model_for, named
from benchmarks.contest.task import Algorithm, Posterior, Task, moments, serve

NUM_PRIOR_DRAWS = 10_000
CHAIN_LENGTH = 10
SHARE_DISCARDED = 0.1


def smc2(task: Task):
    """Yield the posteriors of one run; `num_theta` particles, of which a tenth survives a resampling."""
    random.seed(task.seed)  # noqa: NPY002
    ssm, prior = model_for(task.problem, task.ys, task.inputs)
    outer = smc_samplers.SMC2(
        ssm_cls=ssm,
        prior=prior,
        data=task.ys,
        fk_cls=filter_for(ssm),
        init_Nx=task.size["num_x"],
        ar_to_increase_Nx=0.1,
        len_chain=CHAIN_LENGTH,
    )
    run = particles.SMC(fk=outer, N=task.size["num_theta"] // CHAIN_LENGTH)
    for time in range(1, task.times[-1] + 1):
        next(run)
        if time in task.times:
            yield moments(named(run.X.theta), run.W, run.logLt)


def pmmh(task: Task):
    """Yield the posterior of a chain of its own for each time."""
    for time in task.times:
        yield one_chain(task.until(time))


def one_chain(task: Task) -> Posterior:
    """Run PMMH on all of the data."""
    random.seed(task.seed)  # noqa: NPY002
    ssm, prior = model_for(task.problem, task.ys, task.inputs)
    draws = smc_samplers.view_2d_array(prior.rvs(size=NUM_PRIOR_DRAWS))
    chain = mcmc.PMMH(
        ssm_cls=ssm,
        prior=prior,
        data=task.ys,
        fk_cls=filter_for(ssm),
        Nx=task.size["num_x"],
        niter=task.size["num_iterations"],
        rw_cov=np.atleast_2d(np.cov(draws.T)),
    )
    chain.run()
    kept = chain.chain.theta[int(SHARE_DISCARDED * task.size["num_iterations"]) :]
    return moments(named(kept))


def densities(task: Task):
    """Yield draws of the model with their log densities, for a comparison with paramfilter's."""
    random.seed(task.seed)  # noqa: NPY002
    ssm, prior = model_for(task.problem, task.ys, task.inputs)
    thetas = prior.rvs(size=task.size["num_draws"])
    found = {"prior": prior.logpdf(thetas), "x_prev": [], "x": [], "y": [], "transition": [], "observation": []}
    for theta in thetas:
        model = ssm(**smc_samplers.rec_to_dict(theta))
        x_prev = model.initial().rvs(size=1)
        x = model.PX(0, x_prev).rvs(size=1)
        y = np.array([law.rvs(size=1)[0] for law in model.observations(0, x)])
        found["x_prev"].append(x_prev[0])
        found["x"].append(x[0])
        found["y"].append(y if y.size > 1 else y[0])
        found["transition"].append(model.PX(0, x_prev).logpdf(x)[0])
        found["observation"].append(model.PY(0, x_prev, x).logpdf(y if y.size > 1 else y[0])[0])
    yield Posterior({**found, **{"theta:" + name: values for name, values in named(thetas).items()}}, None)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # weights that underflow are said in numpy's warnings, a thousand times
    serve(
        {"smc2": Algorithm(smc2), "pmmh": Algorithm(pmmh, refits=True), "densities": Algorithm(densities)},
        giving_up=(FloatingPointError, np.linalg.LinAlgError),
    )

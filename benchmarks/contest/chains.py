"""Chains of NUTS for the references: draws of theta, alone or with other coordinates, and what is written of them.

M. Hoffman and A. Gelman, The No-U-Turn sampler, JMLR 15 (2014).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS

import paramfilter as pf
from benchmarks.answers import Answer, lists, worst
from benchmarks.contest.likelihoods import LogLikelihood
from paramfilter.types import KeyArray

NUM_CHAINS = 4


@dataclass(frozen=True)
class Draws:
    """Parameters by name, on their natural scale and as coordinates; leading axes chain and draw."""

    theta: dict[str, np.ndarray]
    z: np.ndarray
    num_divergent: int


def nuts(
    model: pf.StateSpaceModel,
    log_density: Callable[[dict[str, Array]], Array],
    start: dict[str, Array],
    key: KeyArray,
    *,
    num_warmup: int,
    num_draws: int,
    acceptance: float = 0.8,
) -> Draws:
    """Draw from a log density of {"z": theta's coordinates, ...} with a dense metric for z and a diagonal one else."""
    kernel = NUTS(
        potential_fn=lambda at: -log_density(at),
        dense_mass=[("z",)],  # pyright: ignore[reportArgumentType]
        target_accept_prob=acceptance,
        max_tree_depth=9,
    )
    sampler = MCMC(
        kernel,
        num_warmup=num_warmup,
        num_samples=num_draws,
        num_chains=NUM_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(key, init_params=start, extra_fields=("diverging",))
    z = sampler.get_samples(group_by_chain=True)["z"]
    theta = jax.jit(jax.vmap(jax.vmap(model.parameters.constrain)))(z)
    divergent = int(np.sum(sampler.get_extra_fields()["diverging"]))
    return Draws({name: np.asarray(values) for name, values in theta.items()}, np.asarray(z), divergent)


def summary(draws: Draws) -> Answer:
    """Return moments, Monte Carlo errors and R-hat of a run."""
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in draws.theta.items()}
    errors = {name: 1.0 / np.sqrt(effective_sample_size(values)) for name, values in draws.theta.items()}
    rhats = {name: split_gelman_rubin(values) for name, values in draws.theta.items()}
    return {
        "mean": lists({name: np.mean(values, axis=0) for name, values in flat.items()}),
        "sd": lists({name: np.std(values, axis=0) for name, values in flat.items()}),
        "standard_error_of_mean": worst(errors),
        "split_rhat": worst(rhats),
        "num_draws": int(draws.z.shape[0] * draws.z.shape[1]),
        "num_divergent": draws.num_divergent,
    }


def marginal_draws(model: pf.StateSpaceModel, log_likelihood: LogLikelihood, seed: int, num_draws: int) -> Draws:
    """Sample theta alone, in chains that start at draws from the prior."""
    key_start, key_run = jax.random.split(jax.random.key(1_000 + seed))
    start = {"z": jax.vmap(model.parameters.sample)(jax.random.split(key_start, NUM_CHAINS))}

    def log_density(at):
        return model.parameters.log_prior(at["z"]) + log_likelihood(at["z"])

    return nuts(model, log_density, start, key_run, num_warmup=500, num_draws=num_draws)


def difference(answer: Answer, other: Answer) -> Answer:
    """Return the largest difference of means, in sds, and of log sds."""
    means = [abs(other["mean"][name] - answer["mean"][name]) / answer["sd"][name] for name in answer["mean"]]
    sds = [abs(np.log(other["sd"][name] / answer["sd"][name])) for name in answer["mean"]]
    return {"difference_of_mean": float(max(means)), "difference_of_log_sd": float(max(sds))}

"""Compare our resampling with blackjax's and cuthbertlib's: time, rounding, and what bad weights do.

    python benchmarks/resampling.py
    python benchmarks/resampling.py --repeats 5 --output /tmp/resampling.json

All contenders get the same float32 log-weights and run in one process, on one thread, in turns: a busy
machine slows all of them alike. Reported are medians (and minima) of wall time after compilation,
normalising the weights included. A library that is not installed is left out, and a line says so.
cuthbertlib brings numba along, so give it an environment of its own.

`float sums` is the obvious O(N) construction on running sums of float32, which we tried first and did not
keep. See docs/decisions/0007-resampling.md.
"""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import importlib.metadata
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.resampling import Multinomial, Residual, Stratified, Systematic

Resampler = Callable[[jax.Array, jax.Array], jax.Array]  # key, log_weights -> ancestors

SIZES = (1_000, 10_000, 100_000, 1_000_000)
FILTERS_AT_ONCE, PARTICLES_OF_EACH = 100, 1_000
LARGE = 1_000_000
SMALL = 1_000
NUM_KEYS = 3
NUM_CALLS = 50_000
RESULTS = Path(__file__).parent / "results" / "resampling.json"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare resampling schemes and libraries.")
    parser.add_argument("--repeats", type=int, default=33, help="timed runs of each contender and size")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    contenders = our_contenders() | blackjax_contenders() | cuthbertlib_contenders()
    report = {
        "environment": environment(),
        "milliseconds": times(contenders, arguments.repeats),
        "equal_weights_float32": copies_of_equal_weights(contenders),
        "random_weights_float32": errors_of_random_weights(contenders),
        "zero_weights_float32": copies_of_zero_weights(contenders),
        "collapsed_calls_float32": collapsed_calls(contenders),
        "one_weight_is_nan": answers_to(contenders, "NaN"),
        "all_weights_are_zero": answers_to(contenders, "all -inf"),
    }
    report["environment"]["load_average_at_end"] = os.getloadavg()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=1) + "\n")
    print(f"wrote {arguments.output}")


def our_contenders() -> dict[str, Resampler]:
    def ancestors_of(scheme) -> Resampler:
        return lambda key, log_weights: scheme.resample(key, log_weights).ancestors

    schemes = (Systematic(), Stratified(), Multinomial(), Residual())
    ours = {f"paramfilter {type(scheme).__name__.lower()}": ancestors_of(scheme) for scheme in schemes}
    return ours | {"float sums systematic": float_sums_systematic}


def float_sums_systematic(key: jax.Array, log_weights: jax.Array) -> jax.Array:
    num_particles = log_weights.shape[0]
    weights = jnp.exp(log_weights - jnp.max(log_weights))
    ends = num_particles * (jnp.cumsum(weights) / jnp.sum(weights))
    points_before_end = jnp.ceil(ends - jax.random.uniform(key)).astype(jnp.int32)
    histogram = jnp.zeros(num_particles, jnp.int32).at[points_before_end].add(1, mode="drop")
    return jnp.cumsum(histogram)


def blackjax_contenders() -> dict[str, Resampler]:
    try:
        from blackjax.smc import resampling
    except ImportError:
        print("blackjax is not installed here: left out. Install the test dependencies to compare with it.")
        return {}

    def ancestors_of(resample) -> Resampler:
        return lambda key, log_weights: resample(key, jax.nn.softmax(log_weights), log_weights.shape[0])

    names = ("systematic", "stratified", "multinomial", "residual")
    return {f"blackjax {name}": ancestors_of(getattr(resampling, name)) for name in names}


def cuthbertlib_contenders() -> dict[str, Resampler]:
    try:
        from cuthbertlib.resampling import multinomial, systematic  # pyright: ignore[reportMissingImports]
    except ImportError:
        print("cuthbertlib is not installed here: left out. Install it in an environment of its own to compare.")
        return {}

    def ancestors_of(module) -> Resampler:
        nothing_to_copy = ()
        return lambda key, log_weights: module.resampling(key, log_weights, nothing_to_copy, log_weights.shape[0])[0]

    return {
        "cuthbertlib systematic": ancestors_of(systematic),
        "cuthbertlib multinomial": ancestors_of(multinomial),
    }


def environment() -> dict[str, object]:
    def version(package: str) -> str | None:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None

    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads used": 1,
        "load_average_at_start": os.getloadavg(),
        **{package: version(package) for package in ("jax", "blackjax", "cuthbertlib", "numba")},
    }


def times(contenders: dict[str, Resampler], repeats: int) -> dict[str, dict[str, dict[str, float]]]:
    """Median and minimum milliseconds, by size and contender."""
    key = jax.random.key(0)
    cases = {f"{size}": jax.random.normal(key, (size,)) for size in SIZES}
    batch_shape = (FILTERS_AT_ONCE, PARTICLES_OF_EACH)
    cases[f"{FILTERS_AT_ONCE} x {PARTICLES_OF_EACH}"] = jax.random.normal(key, batch_shape)

    table: dict[str, dict[str, dict[str, float]]] = {}
    for case, log_weights in cases.items():
        is_batch = log_weights.ndim == 2
        keys = jax.random.split(key, FILTERS_AT_ONCE) if is_batch else key
        compiled = {name: jax.jit(jax.vmap(f) if is_batch else f) for name, f in contenders.items()}
        for resample in compiled.values():
            resample(keys, log_weights).block_until_ready()
        seconds: dict[str, list[float]] = {name: [] for name in compiled}
        names = list(compiled)
        for turn in range(repeats):
            # Each starts the round in its turn: who runs after a contender that empties the caches is slower.
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                start = time.perf_counter()
                compiled[name](keys, log_weights).block_until_ready()
                seconds[name].append(time.perf_counter() - start)
        table[case] = {
            name: {
                "median": round(1e3 * statistics.median(runs), 3),
                "minimum": round(1e3 * min(runs), 3),
            }
            for name, runs in seconds.items()
        }
        print(f"\nN = {case}: median milliseconds of {repeats}")
        for name, row in table[case].items():
            print(f"  {name:28s} {row['median']:10.3f}")
    return table


def copies_of_equal_weights(contenders: dict[str, Resampler]) -> dict[str, object]:
    """Equal weights, N = 1e6: each particle should get one copy (one on average, for multinomial)."""
    table: dict[str, object] = {}
    print(f"\nequal weights, N = {LARGE}, {NUM_KEYS} keys")
    for name, resample in contenders.items():
        compiled = jax.jit(resample)
        runs = [np.asarray(compiled(jax.random.key(seed), jnp.zeros(LARGE))) for seed in range(NUM_KEYS)]
        # An index beyond the last particle is read by JAX as the last particle.
        counts = [np.bincount(np.clip(ancestors, 0, LARGE - 1), minlength=LARGE) for ancestors in runs]
        table[name] = {
            "copies_of_last": [int(count[-1]) for count in counts],
            "without_copy": [int(np.sum(count == 0)) for count in counts],
            "indices_out_of_range": [int(np.sum(ancestors >= LARGE)) for ancestors in runs],
        }
        print(f"  {name:28s} {table[name]}")
    return table


def errors_of_random_weights(contenders: dict[str, Resampler]) -> dict[str, object]:
    """Log-normal weights, N = 1e6: copies minus `N w_i`; systematic resampling promises less than one."""
    log_weights = jax.random.normal(jax.random.key(3), (LARGE,))
    weights = np.exp(np.asarray(log_weights, np.float64))
    expected = LARGE * weights / weights.sum()
    table: dict[str, object] = {}
    print(f"\nlog-normal weights, N = {LARGE}, {NUM_KEYS} keys: copies minus N w")
    for name, resample in contenders.items():
        compiled = jax.jit(resample)
        errors = [
            np.bincount(np.clip(compiled(jax.random.key(seed), log_weights), 0, LARGE - 1), minlength=LARGE) - expected
            for seed in range(NUM_KEYS)
        ]
        table[name] = {
            "last_particle": [round(float(error[-1]), 2) for error in errors],
            "largest": [round(float(np.abs(error).max()), 4) for error in errors],
        }
        print(f"  {name:28s} {table[name]}")
    return table


def collapsed_calls(contenders: dict[str, Resampler]) -> dict[str, int]:
    """Equal weights, N = 1000: in how many of 50,000 calls does hardly anybody survive?

    Sorted uniforms are often made from `-log(uniform)`, and a float32 uniform is exactly 0 once in 2^23.
    """
    few, calls_at_once = SMALL // 10, 500
    keys = jax.random.split(jax.random.key(4), (NUM_CALLS // calls_at_once, calls_at_once))
    table: dict[str, int] = {}
    print(f"\nequal weights, N = {SMALL}: calls of {NUM_CALLS} with fewer than {few} distinct ancestors")
    for name, resample in contenders.items():

        def num_distinct(key: jax.Array, resample: Resampler = resample) -> jax.Array:
            ancestors = resample(key, jnp.zeros(SMALL))
            return jnp.sum(jnp.zeros(SMALL, jnp.int32).at[ancestors].set(1, mode="drop"))

        survivors = jax.jit(lambda keys, f=num_distinct: jax.lax.map(jax.vmap(f), keys))(keys)
        table[name] = int(np.sum(np.asarray(survivors) < few))
        print(f"  {name:28s} {table[name]}")
    return table


def copies_of_zero_weights(contenders: dict[str, Resampler]) -> dict[str, object]:
    """Random weights, N = 1e6, the last half zero: how often is a zero chosen?"""
    log_weights = jax.random.normal(jax.random.key(1), (LARGE,))
    log_weights = jnp.where(jnp.arange(LARGE) < LARGE // 2, log_weights, -jnp.inf)
    table: dict[str, object] = {}
    print(f"\nN = {LARGE}, the last half have weight zero, {NUM_KEYS} keys: copies of those")
    for name, resample in contenders.items():
        compiled = jax.jit(resample)
        runs = [np.asarray(compiled(jax.random.key(seed), log_weights)) for seed in range(NUM_KEYS)]
        table[name] = [int(np.sum(ancestors >= LARGE // 2)) for ancestors in runs]
        print(f"  {name:28s} {table[name]}")
    return table


def answers_to(contenders: dict[str, Resampler], case: str) -> dict[str, str]:
    """What comes back for weights that no filter should produce."""
    position_of_nan = 10
    log_weights = {
        "NaN": jnp.zeros(SMALL).at[position_of_nan].set(jnp.nan),
        "all -inf": jnp.full(SMALL, -jnp.inf),
    }[case]
    table: dict[str, str] = {}
    print(f"\nN = {SMALL}, {case}")
    for name, resample in contenders.items():
        ancestors = np.asarray(jax.jit(resample)(jax.random.key(2), log_weights))
        table[name] = describe(ancestors)
        if case == "NaN":
            table[name] += f"; the NaN has {np.sum(ancestors == position_of_nan)}"
        print(f"  {name:28s} {table[name]}")
    return table


def describe(ancestors: np.ndarray) -> str:
    distinct, copies = np.unique(ancestors, return_counts=True)
    if (ancestors == np.arange(len(ancestors))).all():
        return "everyone is its own ancestor"
    heaviest = distinct[np.argmax(copies)]
    out_of_range = np.sum((ancestors < 0) | (ancestors >= len(ancestors)))
    text = f"{len(distinct)} distinct ancestors; the most copies has {heaviest}: {copies.max()}"
    return text + (f"; {out_of_range} out of range" if out_of_range else "")


if __name__ == "__main__":
    main()

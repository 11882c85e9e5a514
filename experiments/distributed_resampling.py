"""One filter's particles over several devices: three ways to resample, their cost and their error.

    python -m experiments.distributed_resampling [--devices 8] [--particles 8192] ...

AR(1) with an unknown coefficient and exact beliefs, as in `benchmarks.bare`, the particles shared out over devices:

- gather: every device fetches all particles and picks its own, exact systematic resampling (the yardstick);
- neighbours: exact systematic resampling again. A device makes the children of its own particles; what falls into the
  slots of the device to its left or right is sent there, up to a quarter of a device's particles on each side. If more
  would have to move, all devices take the way of `gather` in that step;
- islands: each device resamples by itself, with the same share of the weight;
- exchange: islands that hand a sixteenth of their particles on to the next device every 64 steps.

Printed for each: milliseconds a step (wall, medians, in turn), bytes that a device sends in a step, how often there was
no room with the neighbours, and the error of the posterior mean against a Kalman grid, in posterior sds, over seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.sharding import Mesh, PartitionSpec

import paramfilter as pf

AXIS = "device"
ROOM = 4
"""A neighbour takes up to 1/4 of a device's particles."""
EXCHANGE_EVERY, EXCHANGE_SHARE = 64, 16
NUM_COLUMNS = 4
"""x, mean, precision, and one that pads the row."""


def counts_before(weights, first, total, num_slots, shift):
    """Return before which slot the children of each particle end, given the weight that came before the first."""
    ends = first + jnp.cumsum(weights)
    return jnp.ceil(ends * (num_slots / total) - shift).astype(jnp.int32)


def parents(ends, low, num_slots):
    """Return the particle whose child each of the slots from `low` on is; ends must rise."""
    counts = jnp.zeros(num_slots + 1, jnp.int32).at[jnp.clip(ends - low, 0, num_slots)].add(1)
    return jnp.minimum(jnp.cumsum(counts)[:num_slots], len(ends) - 1)


def gather(rows, weights, shift, step):
    """Fetch all, and pick."""
    num, place = len(weights), jax.lax.axis_index(AXIS)
    all_rows, all_weights = (jax.lax.all_gather(leaf, AXIS, tiled=True) for leaf in (rows, weights))
    ends = counts_before(all_weights, 0.0, jnp.sum(all_weights), len(all_weights), shift)
    return all_rows[parents(ends, place * num, num)], jnp.float32(0.0)


def neighbours(rows, weights, shift, step):
    """Make the children of one's own particles, and send those that fall into a neighbour's slots."""
    num, place, num_devices = len(weights), jax.lax.axis_index(AXIS), jax.lax.axis_size(AXIS)
    room = num // ROOM
    totals = jax.lax.all_gather(jnp.sum(weights), AXIS)
    bounds = jnp.concatenate([jnp.zeros(1), jnp.cumsum(totals)])
    # Where each device's children begin, counted in slots of all; the same numbers on every device.
    begins = jnp.ceil(bounds * (num * num_devices / bounds[-1]) - shift).astype(jnp.int32)
    begins = begins.at[0].set(0).at[-1].set(num * num_devices)
    has_room = jnp.max(jnp.abs(begins - num * jnp.arange(num_devices + 1))) <= room

    def send():
        first, end = begins[place], begins[place + 1]
        ends = counts_before(weights, bounds[place], bounds[-1], num * num_devices, shift)
        ends = jnp.clip(ends, first, end).at[-1].set(end)
        low = place * num - room
        made = rows[parents(ends, low, num + 2 * room)]
        rightwards = [(one, one + 1) for one in range(num_devices - 1)]
        from_left = jax.lax.ppermute(made[-room:], AXIS, rightwards)
        from_right = jax.lax.ppermute(made[:room], AXIS, [(right, left) for left, right in rightwards])
        mine = made[room : room + num]
        slots = place * num + jnp.arange(num)
        mine = jnp.where((slots < first)[:, None], jnp.pad(from_left, ((0, num - room), (0, 0))), mine)
        return jnp.where((slots >= end)[:, None], jnp.pad(from_right, ((num - room, 0), (0, 0))), mine)

    return jax.lax.cond(has_room, send, lambda: gather(rows, weights, shift, step)[0]), jnp.float32(~has_room)


def islands(rows, weights, shift, step):
    """Stay at home."""
    ends = counts_before(weights, 0.0, jnp.sum(weights), len(weights), shift)
    return rows[parents(ends, 0, len(weights))], jnp.float32(0.0)


def exchange(rows, weights, shift, step):
    """Stay at home, and now and then hand some on; resampled rows are in the order of their ancestors."""
    rows, _ = islands(rows, weights, shift, step)
    num_devices, share = jax.lax.axis_size(AXIS), len(weights) // EXCHANGE_SHARE
    ring = [(one, (one + 1) % num_devices) for one in range(num_devices)]

    def hand_on():
        spread = rows.reshape(share, EXCHANGE_SHARE, NUM_COLUMNS)
        return spread.at[:, 0].set(jax.lax.ppermute(spread[:, 0], AXIS, ring)).reshape(rows.shape)

    return jax.lax.cond(step % EXCHANGE_EVERY == 0, hand_on, lambda: rows), jnp.float32(0.0)


WAYS = {"gather": gather, "neighbours": neighbours, "islands": islands, "exchange": exchange}


def next_rows(way, key, step, rows, y, q, r):
    """Take in one observation: resample by the promise of each particle, move, learn."""
    key = jax.random.fold_in(key, step)
    x, mean, precision, _ = rows.T
    forecast, spread = mean * x, q + x**2 / precision
    promise = -0.5 * ((y - forecast) ** 2 / (spread + r) + jnp.log(spread + r))
    own = way in (islands, exchange)
    top = jnp.max(promise) if own else jax.lax.pmax(jnp.max(promise), AXIS)
    shift_key = jax.random.fold_in(key, jax.lax.axis_index(AXIS) if own else 0)
    rows, failed = way(rows, jnp.exp(promise - top), jax.random.uniform(shift_key), step)
    x, mean, precision, pad = rows.T
    forecast, spread = mean * x, q + x**2 / precision
    gain = spread / (spread + r)
    noise = jax.random.normal(jax.random.fold_in(key, 1 + jax.lax.axis_index(AXIS)), x.shape)
    new_x = forecast + gain * (y - forecast) + jnp.sqrt(gain * r) * noise
    new_precision = precision + x**2 / q
    new_mean = (precision * mean + x * new_x / q) / new_precision
    return jnp.stack([new_x, new_mean, new_precision, pad], axis=1), failed


def filter_by(way, mesh, q, r):
    """Compile a filter over the mesh: from rows and observations to rows, and how often there was no room."""

    def run(rows, ys, key, start):
        def take_in(rows, given):
            return next_rows(way, key, given[0], rows, given[1], q, r)

        rows, failed = jax.lax.scan(take_in, rows, (start + jnp.arange(len(ys)), ys))
        return rows, jnp.mean(failed)[None]

    shared, same = PartitionSpec(AXIS), PartitionSpec()
    return jax.jit(
        jax.shard_map(run, mesh=mesh, in_specs=(shared, same, same, same), out_specs=shared, check_vma=False),
        donate_argnums=0,
    )


def first_rows(key, num):
    x = jax.random.normal(key, (num,))
    return jnp.stack([x, jnp.zeros(num), jnp.ones(num), jnp.zeros(num)], axis=1)


def measure(num_particles: int, num_seeds: int, num_steps: int, rounds: int) -> list[dict]:
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0), r=1.0)
    ys = pf.simulate(jax.random.key(0), model, {"phi": 0.8}, num_steps)[1]
    reference = pf.references.kalman_grid(model, ys)
    filters = {name: filter_by(way, mesh, 1.0, 1.0) for name, way in WAYS.items()}
    errors, failures, seconds = ({name: [] for name in WAYS} for _ in range(3))
    for seed in range(num_seeds):
        for name, run in filters.items():
            rows, failed = run(first_rows(jax.random.key(seed), num_particles), ys, jax.random.key(100 + seed), 0)
            errors[name].append((float(jnp.mean(rows[:, 1])) - reference.mean()["phi"]) / reference.sd()["phi"])
            failures[name].append(float(failed[0]))
    few = ys[: max(2, min(num_steps, 2_000_000 // num_particles))]
    states = {name: first_rows(jax.random.key(0), num_particles) for name in WAYS}
    for turn in range(rounds + 1):
        for name, run in filters.items():
            began = time.perf_counter()
            states[name], _ = jax.block_until_ready(run(states[name], few, jax.random.key(1), 0))
            if turn:
                seconds[name].append((time.perf_counter() - began) / len(few))
    each, row = num_particles // mesh.size, 4 * NUM_COLUMNS
    sent = {
        "gather": each * (row + 4) * (mesh.size - 1),
        "neighbours": 2 * (each // ROOM) * row + 4 * mesh.size,
        "islands": 0,
        "exchange": each // EXCHANGE_SHARE * row // EXCHANGE_EVERY,
    }
    return [
        {
            "way": name,
            "devices": mesh.size,
            "processes": jax.process_count(),
            "particles": num_particles,
            "milliseconds_a_step": round(1e3 * float(np.median(seconds[name])), 4),
            "bytes_a_device_sends": sent[name],
            "share_of_steps_without_room": round(float(np.mean(failures[name])), 4) if num_seeds else None,
            "steps": num_steps,
            "rms_error": round(float(np.sqrt(np.mean(np.square(errors[name])))), 4) if num_seeds else None,
            "seeds": num_seeds,
        }
        for name in WAYS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--particles", type=int, default=8192)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    wanted = f"--xla_force_host_platform_device_count={options.devices}"
    if wanted not in os.environ.get("XLA_FLAGS", ""):
        # The number of devices is read once, when JAX starts; and first, since what follows a thread count is not read.
        flags = f"{wanted} --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        os.execve(sys.executable, [sys.executable, "-m", "experiments.distributed_resampling", *sys.argv[1:]],
                  {**os.environ, "XLA_FLAGS": flags})  # fmt: skip
    for row in measure(options.particles, options.seeds, options.steps, options.rounds):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

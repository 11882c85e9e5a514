"""What is kept of a method: averages as `results/measles/METHOD.json`, in git, and each forecast's scores, not in git.

The scores of all forecasts (town, origin, horizon) are in `.environments/measles/scores/METHOD.npz`, with the rows of
the towns, so that two methods can be compared pair by pair.
"""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import numpy as np

from benchmarks.contest.run import machine, rounded
from benchmarks.environments import ENVIRONMENTS
from benchmarks.measles.data import NUM_LARGEST, NUM_RANDOM, NUM_WEEKS, load
from benchmarks.measles.scores import FIRST_ORIGIN, Scores, average, averages_by_size
from benchmarks.tables import RESULTS, write_table

FAR_BELOW = -0.2
"""Nats below ours, beyond which a method is not drawn."""
SCORES = ENVIRONMENTS / "measles" / "scores"
FOLDER = "measles"


def keep(method: str, towns: np.ndarray, scores: Scores, **about: Any) -> None:
    """Keep the scores of a method.

    Args:
        method: The name of the files.
        towns: Rows of the towns in `data.load()`.
        scores: Of these towns.
        about: Whatever else the JSON says: versions, settings, CPU seconds.
    """
    SCORES.mkdir(parents=True, exist_ok=True)
    small = {name: part.astype(np.float32) for name, part in scores._asdict().items()}
    np.savez_compressed(SCORES / f"{method}.npz", towns=towns, **small)
    (RESULTS / FOLDER).mkdir(parents=True, exist_ok=True)
    about["towns"] = load().towns[towns].tolist()
    content = {"method": method, "date": date.today().isoformat(), "machine": machine(), **rounded(about)}
    write_table(f"{FOLDER}/{method}", content | {"scores": averages_by_size(scores, load().mean_population[towns])})


def put_tuning_row(towns: list[str], row: dict[str, Any]) -> None:
    """Put the row of a variant and a spread into `results/measles/tuning.json`, the best log score first."""
    path = RESULTS / FOLDER / "tuning.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    others = [old for old in rows if (old["variant"], old["spread"]) != (row["variant"], row["spread"])]
    best_first = sorted([*others, row], key=lambda one: -float(one["log_score"]))
    write_table(f"{FOLDER}/tuning", {"towns": towns, "rows": best_first})


def kept() -> dict[str, dict[str, Any]]:
    """Return what was kept of each method, those with the best log score first."""
    found = [json.loads(path.read_text()) for path in (RESULTS / FOLDER).glob("*.json")]
    methods = [content for content in found if "method" in content]
    best_first = sorted(methods, key=lambda content: -np.mean(content["scores"]["all"]["log_score"]["mean"]))
    return {content["method"]: content for content in best_first}


def kept_scores(method: str) -> tuple[np.ndarray, Scores]:
    """Return the towns' rows, and the scores of each forecast."""
    with np.load(SCORES / f"{method}.npz") as arrays:  # noqa: TID251  our own file, and no pickle is let in
        return arrays["towns"], Scores(*(arrays[name] for name in Scores._fields))


def difference(method: str, other: str) -> dict[str, dict[str, list[float]]]:
    """Average the scores of a method minus those of another, on the towns that both were run on."""
    (towns, scores), (other_towns, other_scores) = kept_scores(method), kept_scores(other)
    _, mine, others = np.intersect1d(towns, other_towns, return_indices=True)
    return {
        name: average(getattr(scores, name)[mine] - getattr(other_scores, name)[others])
        for name in ("log_score", "crps", "crps_log")
    }


def report() -> str:
    """Write the averages as a table, a line for each method and horizon; towns may differ, see `difference`."""
    lines = ["method                     towns  h  log score        CRPS     CRPS of log  50 %   90 %   CPU s"]
    for method, content in kept().items():
        every = content["scores"]["all"]
        for place in range(len(every["crps"]["mean"])):
            at = {name: part["mean"][place] for name, part in every.items() if name != "num_towns"}
            log_score = f"{at['log_score']:.4f} ±{every['log_score']['se'][place]:.4f}"
            lines.append(
                f"{method:26s} {every['num_towns']:5d}  {place + 1}  {log_score:16s} {at['crps']:7.3f}  "
                f"{at['crps_log']:.4f}       {at['coverage_50']:.3f}  {at['coverage_90']:.3f}  "
                f"{content['cpu_seconds']['history']:.4g}"
            )
    return "\n".join(lines)


def chart(axes: Any) -> None:
    """Draw the log scores of all methods on the towns that each was run on, minus those of ours on the same towns."""
    base = kept()["paramfilter"]["differences"]
    base = {method: found for method, found in base.items() if found["mean"][0] > FAR_BELOW}
    for place, (method, differences) in enumerate(sorted(base.items(), key=lambda item: item[1]["mean"][0])):
        horizons = np.arange(1, len(differences["mean"]) + 1) + 0.02 * place
        style = {"marker": "o", "markersize": 3, "linewidth": 1.2}
        axes.errorbar(
            horizons, differences["mean"], 2 * np.array(differences["se"]), label=method.replace("_", " "), **style
        )
    axes.axhline(0.0, color="black", linewidth=1.5, label="paramfilter")
    axes.set(xlabel="weeks ahead", ylabel="log score, minus that of paramfilter", xticks=[1, 2, 3, 4])
    axes.legend(fontsize="small", loc="lower left", ncols=3)
    axes.set_ylim(bottom=-0.24)


def keep_differences() -> None:
    """Keep the differences of log scores between each method and ours, on the towns of both, beside our scores."""
    methods = [method for method in kept() if method != "paramfilter"]
    found = {method: difference(method, "paramfilter")["log_score"] for method in methods}
    content = kept()["paramfilter"]
    write_table(f"{FOLDER}/paramfilter", content | {"differences": found})


def cost_summary() -> str:
    """Say how our scores and CPU seconds compare with those of the best other method, and with weekly refits."""
    best = next(content for method, content in kept().items() if method != "paramfilter" and has_all_towns(content))
    own = kept()["paramfilter"]
    less = [1 - a / b for a, b in zip(*(one["scores"]["all"]["crps"]["mean"] for one in (own, best)), strict=True)]
    spent, other = own["cpu_seconds"], best["cpu_seconds"]["history"]
    level = kept()["local_level"]["cpu_seconds"]
    refits = level["one_refit_per_town_at_half"] * level["num_towns"] * (NUM_WEEKS - FIRST_ORIGIN)
    return (
        f"The best other method on all towns is {best['method'].replace('_', ' ')}. "
        f"Our CRPS is {min(less):.0%} to {max(less):.0%} lower.\n"
        f"We need {spent['filter']:.0f} CPU seconds to filter {spent['num_towns']} towns, and {spent['quantiles']:.0f} "
        f"for quantiles by draws. The other method needs {other:.0f} in all.\n"
        f"A local level that is fitted anew each week would need {refits:.0f}, by the time of one fit."
    )


def has_all_towns(content: dict[str, Any]) -> bool:
    """Tell whether a method was run on all compared towns."""
    return content["scores"]["all"]["num_towns"] == NUM_LARGEST + NUM_RANDOM


def cold_start_summary() -> str:
    """Say what the priors of new towns gain over the model's own."""
    found = json.loads((RESULTS / FOLDER / "cold_start.json").read_text())
    gains = {row["prior"]: [f"{gain:+.3f} ± {se:.3f}" for gain, se in zip(row["gain"], row["gain_se"], strict=True)]
             for row in found["rows"]}  # fmt: skip
    seen = found["seen"]
    return (
        f"After {seen[0]} observations the population gains {gains['population'][0]} nats over the model's own prior, "
        f"and {gains['population'][-1]} after {seen[-1]}.\n"
        f"The whole past gains {gains['whole past'][0]} and {gains['whole past'][-1]}, and one theta for all towns "
        f"{gains['pooled'][0]} and {gains['pooled'][-1]}."
    )

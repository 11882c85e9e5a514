"""A run as a table: a row for each observation, for whoever works with pandas, polars or Parquet."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from paramfilter.extras import extra
from paramfilter.labels import Component, components_of
from paramfilter.results.bands import band
from paramfilter.results.tree import MOMENTS

LEVEL = 0.9

STATS = ("ess", "log_evidence_increment", "approximation_error", "num_unique_ancestors", "outcome")


def to_pandas(tree: Any) -> Any:
    """Return a pandas table with mean, sd and 90 % interval of each parameter and state after each observation."""
    return extra("pandas", "tables").DataFrame(columns_of(tree)).set_index("time")


def to_polars(tree: Any) -> Any:
    """Return a polars table with mean, sd and 90 % interval of each parameter and state after each observation."""
    return extra("polars", "tables").DataFrame(columns_of(tree))


def to_parquet(tree: Any, path: str | os.PathLike) -> None:
    """Write the same table to a Parquet file."""
    arrow, parquet = extra("pyarrow", "tables"), extra("pyarrow.parquet", "tables")
    parquet.write_table(arrow.table(columns_of(tree)), path)


def columns_of(tree: Any) -> dict[str, np.ndarray]:
    """Return the columns of the table by name."""
    columns: dict[str, np.ndarray] = {"time": _fine_enough(tree["filtered"]["time"].to_numpy())}
    for group in ("filtered", "filtered_state"):
        for name, variable in tree[group].data_vars.items():
            for one in components_of(str(name), variable.shape[2:]):
                mean, sd = moments_of(variable, one)
                low, high = band(mean, sd, LEVEL, **bounds_of(variable))
                ends = {f"q{50 - 50 * LEVEL:02.0f}": low, f"q{50 + 50 * LEVEL:02.0f}": high}
                columns |= {f"{one}_{part}": column for part, column in {"mean": mean, "sd": sd, **ends}.items()}
    return columns | {name: tree["filter_stats"][name].to_numpy() for name in STATS}


def _fine_enough(times: np.ndarray) -> np.ndarray:
    """Count days and seconds in milliseconds: tables know nothing coarser."""
    is_coarse = times.dtype.kind == "M" and np.datetime_data(times.dtype)[0] not in ("ms", "us", "ns")
    return times.astype("datetime64[ms]") if is_coarse else times


def moments_of(variable: Any, one: Component) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sd over time of a component of a filtered variable."""
    mean, sd = (np.asarray(variable.sel(moment=moment))[:, *one.place] for moment in MOMENTS)
    return mean, sd


def bounds_of(variable: Any) -> dict[str, float]:
    """Return the bounds of a variable as `band` takes them."""
    return {"lower": variable.attrs.get("lower", -np.inf), "upper": variable.attrs.get("upper", np.inf)}

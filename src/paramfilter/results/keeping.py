"""Results on disk: netCDF (one file) or Zarr (a folder), both data and no code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from paramfilter.errors import DataError, extra
from paramfilter.results.tree import EXTRA

NETCDF, ZARR = ".nc", ".zarr"

LARGEST_RATIO, FREE_BYTES = 50, 2**26
"""Bytes in memory for a byte on disk that a result may take, and what any may: compression gains less than this."""


def save_result(path: str | os.PathLike, tree: Any) -> None:
    """Write a result: to one file if the name ends in .nc, to a folder if it ends in .zarr."""
    if _kind(path) == NETCDF:
        tree.to_netcdf(path, engine=_engine())
    else:
        extra("zarr", "zarr")
        tree.to_zarr(path, mode="w", consolidated=False)


def load_result(path: str | os.PathLike) -> Any:
    """Read a result that `save_result` wrote, or any `DataTree` of these formats."""
    xarray = extra("xarray", EXTRA)
    kind = _kind(path)
    if not Path(path).exists():
        raise DataError(f"there is no result at {path}.")
    try:
        options = {"engine": _engine()} if kind == NETCDF else {"engine": extra("zarr", "zarr").__name__}
        with xarray.open_datatree(path, **options, **({} if kind == NETCDF else {"consolidated": False})) as tree:
            _require_size(path, tree.nbytes)
            return tree.load()
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read as a result ({error}). Was it written by save_result?") from error


def _require_size(path: str | os.PathLike, num_bytes: int) -> None:
    """Refuse a file that would take far more memory than it is long, before it is read."""
    files = [Path(path)] if Path(path).is_file() else [file for file in Path(path).rglob("*") if file.is_file()]
    most = LARGEST_RATIO * sum(file.stat().st_size for file in files) + FREE_BYTES
    if num_bytes > most:
        raise DataError(
            f"{path} says that it holds {num_bytes / 1e9:.1f} GB, far more than its size allows ({most / 1e9:.1f} GB). "
            "Is it damaged, or from someone else? Read it with xarray.open_datatree if you trust it."
        )


def _kind(path: str | os.PathLike) -> str:
    suffix = Path(path).suffix
    if suffix not in (NETCDF, ZARR):
        raise DataError(f"a result is kept in a file that ends in .nc or a folder that ends in .zarr; got {path}.")
    return suffix


def _engine() -> str:
    extra("h5py", EXTRA)
    return extra("h5netcdf", EXTRA).__name__

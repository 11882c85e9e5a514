"""Results on disk: netCDF (one file) or Zarr (a folder), both data and no code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from paramfilter.errors import DataError
from paramfilter.extras import extra
from paramfilter.results.tree import EXTRA

NETCDF, ZARR = ".nc", ".zarr"


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
        if kind == ZARR:
            extra("zarr", "zarr")
            return xarray.open_datatree(path, engine="zarr", consolidated=False).load()
        with xarray.open_datatree(path, engine=_engine()) as tree:
            return tree.load()
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read as a result ({error}). Was it written by save_result?") from error


def _kind(path: str | os.PathLike) -> str:
    suffix = Path(path).suffix
    if suffix not in (NETCDF, ZARR):
        raise DataError(f"a result is kept in a file that ends in .nc or a folder that ends in .zarr; got {path}.")
    return suffix


def _engine() -> str:
    extra("h5py", EXTRA)
    return extra("h5netcdf", EXTRA).__name__

"""Results on disk: a netCDF file, which holds data and no code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from paramfilter.errors import DataError, extra
from paramfilter.results.tree import EXTRA

LARGEST_RATIO, FREE_BYTES = 50, 2**26
"""Bytes in memory for a byte on disk that a result may take, and what any may: compression gains less than this."""


def save_result(path: str | os.PathLike, tree: Any) -> None:
    """Write a result to a file whose name ends in .nc."""
    tree.to_netcdf(path, engine=_engine_for(path))


def load_result(path: str | os.PathLike) -> Any:
    """Read a result that `save_result` wrote, or any `DataTree` in a netCDF file."""
    xarray, engine = extra("xarray", EXTRA), _engine_for(path)
    if not Path(path).exists():
        raise DataError(f"there is no result at {path}.")
    try:
        with xarray.open_datatree(path, engine=engine) as tree:
            _require_size(path, tree.nbytes)
            return tree.load()
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read as a result ({error}). Was it written by save_result?") from error


def _require_size(path: str | os.PathLike, num_bytes: int) -> None:
    """Refuse a file that would take far more memory than it is long, before it is read."""
    most = LARGEST_RATIO * Path(path).stat().st_size + FREE_BYTES
    if num_bytes > most:
        raise DataError(
            f"{path} says that it holds {num_bytes / 1e9:.1f} GB, far more than its size allows ({most / 1e9:.1f} GB). "
            "Is it damaged, or from someone else? Read it with xarray.open_datatree if you trust it."
        )


def _engine_for(path: str | os.PathLike) -> str:
    if Path(path).suffix != ".nc":
        raise DataError(f"a result is kept in a file that ends in .nc; got {path}. Call tree.to_zarr for a folder.")
    extra("h5py", EXTRA)
    return extra("h5netcdf", EXTRA).__name__

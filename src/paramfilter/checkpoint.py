"""Save the state of a filter and restore it, in this process or another, bit for bit.

A checkpoint is a safetensors file: raw arrays and a header of strings, no code. The header holds a format number, a
checksum of all arrays, and the fingerprint of the filter it belongs to (see `filters.fingerprint`). The file is
written beside its place, synced and renamed, so a crash leaves the old file or the new one, never half of one.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import zlib
from collections.abc import Buffer
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialise

from paramfilter.arguments import kind_of, require_kind
from paramfilter.errors import ArgumentError, CheckpointError
from paramfilter.filters import Filter, first_difference
from paramfilter.types import Inputs

FORMAT = 1
"""Number of this layout; a reader refuses numbers it does not know."""

FILTER, FLEET = "filter", "fleet"
"""Kinds of checkpoints."""

READERS = {FILTER: "read it with paramfilter.restore", FLEET: "read it with Fleet.restore"}


def save(path: str | os.PathLike, state: Any) -> None:
    """Write the state of a filter to a file, atomically.

    Args:
        path: File to write, usually `name.safetensors`. An existing file is replaced.
        state: State of a filter, from `init`, `step` or `run`. For a fleet call `fleet.save(path, state)`.
    """
    if not hasattr(state, "fingerprint"):
        raise ArgumentError(
            f"state must be the state of a filter, got {kind_of(state)}. The call is save(path, state); a fleet is "
            "saved with fleet.save(path, state)."
        )
    write(path, FILTER, state, {"key_impl": str(jax.random.key_impl(state.key)), "fingerprint": state.fingerprint})


def restore(path: str | os.PathLike, filter: Filter) -> Any:
    """Read the state of a filter from a file.

    Args:
        path: File written by `save`.
        filter: A filter with the same model, prior, parts and number of particles as the one that was saved.

    Returns:
        The state. Continuing from it gives the same bits as an uninterrupted run.

    Raises:
        CheckpointError: The file is damaged, has an unknown format, or belongs to another filter.
    """
    require_kind(filter, Filter, "filter", "The call is restore(path, filter).")
    saved = read(path, FILTER, filter)
    key = jax.random.key(0, impl=saved.header["key_impl"])
    return saved.fill(jax.eval_shape(filter.init, key, saved.first_inputs(filter)))


@dataclass(frozen=True)
class Saved:
    """The content of a checkpoint: its header, and its arrays by name."""

    path: str | os.PathLike
    header: dict[str, str]
    arrays: dict[str, np.ndarray]

    def first_inputs(self, filter: Filter) -> Inputs:
        """Return example inputs if the state stores its initial inputs, and None otherwise."""
        return filter.model.example_inputs if any("initial_inputs" in name for name in self.arrays) else None

    def fill(self, template: Any) -> Any:
        """Return a tree with the structure, shapes and types of a template, from the arrays."""
        leaves = [self._as_jax(name, leaf) for name, leaf in _named_leaves(template)]
        return jax.tree.unflatten(jax.tree.structure(template), leaves)

    def _as_jax(self, name: str, template: Any) -> Any:
        is_key = jnp.issubdtype(template.dtype, jax.dtypes.prng_key)
        wanted = jax.eval_shape(jax.random.key_data, template) if is_key else template
        saved = self.arrays.get(name)
        if saved is None or saved.dtype != wanted.dtype or saved.shape != wanted.shape:
            found = "nothing" if saved is None else f"{saved.dtype}{list(saved.shape)}"
            raise CheckpointError(
                f"{self.path} holds {found} for {name}; this filter needs {wanted.dtype}{list(wanted.shape)}. "
                "If only the precision differs, set jax_enable_x64 as it was when the checkpoint was saved."
            )
        array = jnp.asarray(saved)
        return jax.random.wrap_key_data(array, impl=self.header["key_impl"]) if is_key else array


def write(path: str | os.PathLike, kind: str, tree: Any, header: dict[str, str]) -> None:
    """Write a tree of arrays and keys to a file, atomically; `kind` is FILTER or FLEET."""
    arrays = {name: np.asarray(_as_numpy(leaf), order="C") for name, leaf in _named_leaves(tree)}
    header = {"format": str(FORMAT), "kind": kind, **header}
    header["checksum"] = str(_checksum(header, arrays))
    write_atomically(Path(path), serialise(arrays, header))


def read(path: str | os.PathLike, kind: str, filter: Filter) -> Saved:
    """Read a file of this kind that belongs to a filter, or raise `CheckpointError`."""
    header, arrays = _read(Path(path))
    if "checksum" not in header:
        raise CheckpointError(
            f"{path} is a safetensors file, but not one that paramfilter wrote. Pass a file that save has written."
        )
    if header.get("format") != str(FORMAT):
        raise CheckpointError(
            f"{path} has checkpoint format {header.get('format')!r}; this version reads {FORMAT}. Update "
            "paramfilter, or save again with the version that wrote it."
        )
    if header.pop("checksum", None) != str(_checksum(header, arrays)):
        raise CheckpointError(f"{path} is damaged: its checksum does not match. Use an earlier checkpoint.")
    found = header.get("kind", FILTER)  # the first checkpoints did not say
    if found != kind:
        fix = READERS.get(found, "update paramfilter")
        raise CheckpointError(f"{path} holds the state of a {found}, not of a {kind}; {fix}.")
    difference = first_difference(header["fingerprint"], filter.fingerprint)
    if difference is not None:
        raise CheckpointError(
            f"{path} belongs to another filter; {difference}. Build the filter as it was when the checkpoint was saved."
        )
    return Saved(path, header, arrays)


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """Name each leaf by its path, such as `statistics[0].precision.total`."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path).lstrip("."), leaf) for path, leaf in paths]


def _as_numpy(leaf: Any) -> np.ndarray:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _checksum(header: dict[str, str], arrays: dict[str, np.ndarray]) -> int:
    total = zlib.crc32(repr(sorted(header.items())).encode())
    for name in sorted(arrays):
        array = arrays[name]
        total = zlib.crc32(f"{name}:{array.dtype.str}:{array.shape}".encode(), total)
        total = zlib.crc32(array.tobytes(), total)
    return total


def _read(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    if not path.is_file():
        raise CheckpointError(
            f"there is no checkpoint at {path.absolute()}. Check the path, or start again with filter.init."
        )
    try:
        with safe_open(path, framework="numpy") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"{path} is not a readable checkpoint ({error}). Pass a file that save has written, or an "
            "earlier checkpoint."
        ) from error


def write_atomically(path: Path, content: Buffer) -> None:
    """Write to a temporary file in the same directory, sync, rename, and sync the directory."""
    if not path.parent.is_dir():
        raise CheckpointError(f"there is no directory {path.parent} to write {path.name} to; create it first.")
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

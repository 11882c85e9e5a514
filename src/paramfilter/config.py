"""Settings for the whole process: where compiled code is kept between processes.

JAX compiles a filter in seconds to half a minute, and forgets the result when the process ends. So the library keeps
compiled code on disk, and the next process loads it. Making the first `StateSpaceModel` of a process switches this
compilation cache on, unless you have configured JAX's own. You can turn it off, or move it:

    PARAMFILTER_COMPILATION_CACHE=off                       # in the environment
    PARAMFILTER_COMPILATION_CACHE=/scratch/me
    pf.config.set_compilation_cache(None)                   # in Python
    pf.config.set_compilation_cache("/scratch/me")

By default it is in `$XDG_CACHE_HOME/paramfilter`, or `~/.cache/paramfilter`. Four rules make it safe to use unasked:

1. Your settings win. If `jax_compilation_cache_dir` is set, or JAX's cache is disabled, the library changes nothing.
2. Code compiled for one machine is not loaded on another. Each kind of CPU, each `XLA_FLAGS` and each version of JAX
   has a directory of its own, so machines may share a home directory.
3. Only you can write there. Whoever can write to the directory can run code in your process, so it is used only if it
   belongs to you and is closed to others (mode 0700).
4. It stays small. Once per process, the files that were used least recently are removed until `MAX_BYTES` are left.

A directory that cannot be used, such as a read-only home, is no error: each process then compiles for itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import platform
import stat
import threading
from pathlib import Path

from paramfilter.errors import ArgumentError

__all__ = ["MAX_BYTES", "compilation_cache", "set_compilation_cache"]

MAX_BYTES = 2**30
"""Size of the cache after the removal of old files, all its directories together."""

VARIABLE = "PARAMFILTER_COMPILATION_CACHE"
OFF = ("off", "0", "false", "no")

MIN_COMPILE_SECONDS = 0.0
"""Programs that compile faster are not kept. Loading takes a few ms even for the smallest; compiling them takes 80."""

JAX_MIN_COMPILE_SECONDS = 1.0
"""JAX's default. Any other value was set by the user."""

CPU_FIELDS = ("vendor_id", "cpu family", "model", "model name", "flags", "CPU implementer", "CPU part", "Features")
"""Lines of /proc/cpuinfo that say for which instructions XLA compiles, on x86 and on ARM."""

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_is_decided = False
_directory: Path | None = None


def compilation_cache() -> Path | None:
    """Return the directory in which the library keeps compiled code in this process.

    It is None before the first model is made, while the cache is off, and where JAX's own setting is used.
    """
    return _directory


def set_compilation_cache(directory: str | Path | None) -> None:
    """Move the compilation cache, or turn it off.

    Args:
        directory: Where to keep compiled code, in a subdirectory for this kind of machine. None turns the cache off;
            JAX's own, if you have configured it, stays on.

    Raises:
        ArgumentError: JAX's own cache is configured, the directory cannot be used, or others can write to it.
    """
    global _is_decided
    with _lock:
        if directory is None:
            _is_decided = True
            _switch_off()
            return
        if _is_set_in_jax():
            raise ArgumentError(
                "JAX's own compilation cache is already configured or disabled, and paramfilter does not change that. "
                f'Use jax.config.update("jax_compilation_cache_dir", {str(directory)!r}).'
            )
        _is_decided = True
        try:
            _switch_on(Path(directory))
        except OSError as error:
            raise ArgumentError(
                f"directory={str(directory)!r} cannot hold compiled code: {error}. Use a directory that belongs to you "
                "and that only you can write to."
            ) from error


def use_compilation_cache() -> None:
    """Switch the compilation cache on, once per process, unless the user has decided otherwise."""
    global _is_decided
    if _is_decided:
        return
    with _lock:
        if _is_decided:
            return
        _is_decided = True
        setting = os.environ.get(VARIABLE, "")
        if setting.lower() in OFF or _is_set_in_jax():
            return
        try:
            _switch_on(Path(setting) if setting else _user_cache() / "paramfilter")
        except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
            _logger.debug("compiled code is not kept: %s", error)


def _is_set_in_jax() -> bool:
    """Whether the user has configured JAX's own cache, by its environment variables or by `jax.config`."""
    import jax

    directory = jax.config.jax_compilation_cache_dir
    is_ours = _directory is not None and directory == str(_directory)
    is_given = not is_ours and (directory is not None or "JAX_COMPILATION_CACHE_DIR" in os.environ)
    return is_given or not jax.config.jax_enable_compilation_cache


def _user_cache() -> Path:
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".cache"


def _switch_on(root: Path) -> None:
    global _directory
    import jax

    root = root.expanduser().resolve()
    directory = root / f"compiled-{_machine()}"
    for folder in (root, directory):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_safe(root, directory)
    _remove_oldest(root)
    _directory = directory
    jax.config.update("jax_compilation_cache_dir", str(directory))
    if not _is_threshold_set():
        jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)
    _forget_decision_of_jax()


def _switch_off() -> None:
    global _directory
    import jax

    if _directory is None or _is_set_in_jax():
        _directory = None
        return
    _directory = None
    jax.config.update("jax_compilation_cache_dir", None)
    if jax.config.jax_persistent_cache_min_compile_time_secs == MIN_COMPILE_SECONDS:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", JAX_MIN_COMPILE_SECONDS)
    _forget_decision_of_jax()


def _is_threshold_set() -> bool:
    import jax

    is_default = jax.config.jax_persistent_cache_min_compile_time_secs == JAX_MIN_COMPILE_SECONDS
    return not is_default or "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" in os.environ


def _forget_decision_of_jax() -> None:
    """Let JAX look at its settings again: it decides once per process, at the first compilation, whether to cache."""
    from jax.experimental.compilation_cache import compilation_cache as cache_of_jax

    cache_of_jax.reset_cache()


def _machine() -> str:
    """Return a digest of what makes compiled code unusable elsewhere."""
    import jax
    from jaxlib import version

    parts = (_cpu(), os.environ.get("XLA_FLAGS", ""), jax.__version__, version.__version__)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _cpu() -> str:
    try:
        first, _, _ = Path("/proc/cpuinfo").read_text().partition("\n\n")
    except OSError:
        first = ""
    lines = [line for line in first.splitlines() if line.partition(":")[0].strip() in CPU_FIELDS]
    return "\n".join(lines or (platform.machine(), platform.processor(), platform.node()))


def _require_safe(root: Path, directory: Path) -> None:
    """Refuse a directory to which another user can write, or which another user can exchange for one of theirs."""
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(f"{directory} is not writable")
    if not hasattr(os, "getuid"):  # Windows: a user's profile is closed to others
        return
    inner, outer = directory.lstat(), root.stat()
    if not stat.S_ISDIR(inner.st_mode) or inner.st_uid != os.getuid() or inner.st_mode & 0o077:
        raise PermissionError(f"{directory} is not a directory of yours with mode 0700")
    is_open = outer.st_mode & 0o022 and not outer.st_mode & stat.S_ISVTX  # sticky: others cannot rename what is yours
    if is_open or outer.st_uid not in (os.getuid(), 0):
        raise PermissionError(f"{root} is open to other users")


def _remove_oldest(root: Path) -> None:
    """Keep the files that were used last, up to `MAX_BYTES`, and remove the others.

    JAX can bound one directory itself (`jax_compilation_cache_max_size`), but it needs another package, filelock, and
    takes a lock and writes a file at every load. Empty files are remains of a process that was stopped.
    """
    found = []
    for path in root.glob("compiled-*/*-cache"):
        with contextlib.suppress(OSError):  # another process may have removed it
            status = path.lstat()
            found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
    total = 0
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > MAX_BYTES or size == 0:
            with contextlib.suppress(OSError):
                path.unlink()

"""Settings for the whole process: where compiled code is kept between processes.

JAX compiles a filter in seconds to half a minute, and forgets the result when the process ends. So the library keeps
compiled code on disk, and the next process loads it. Making the first `StateSpaceModel` of a process switches JAX's
compilation cache on, unless you have configured it. The environment can turn this off, or move it:

    PARAMFILTER_COMPILATION_CACHE=off
    PARAMFILTER_COMPILATION_CACHE=/scratch/me

By default it is in `$XDG_CACHE_HOME/paramfilter`, or `~/.cache/paramfilter`. Three rules make it safe to use unasked:

1. Your settings win. If `jax_compilation_cache_dir` is set, or JAX's cache is disabled, the library changes nothing.
2. Code compiled for one machine is not loaded on another. Each kind of CPU, each `XLA_FLAGS` and each version of JAX
   has a directory of its own, so machines may share a home directory.
3. Only you can write there. Whoever can write to the directory can run code in your process, so it is used only if it
   belongs to you and is closed to others (mode 0700).

It grows with each program that is new; to bound it, set JAX's `jax_compilation_cache_max_size`. A directory that cannot
be used, such as a read-only home, is no error: each process then compiles for itself.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import stat
from pathlib import Path

VARIABLE = "PARAMFILTER_COMPILATION_CACHE"
OFF = ("off", "0", "false", "no")

MIN_COMPILE_SECONDS = 0.0
"""Programs that compile faster are not kept. Loading takes a few ms even for the smallest; compiling them takes 80."""

CPU_FIELDS = ("vendor_id", "cpu family", "model", "model name", "flags", "CPU implementer", "CPU part", "Features")
"""Lines of /proc/cpuinfo that say for which instructions XLA compiles, on x86 and on ARM."""

_logger = logging.getLogger(__name__)
_is_decided = False


def use_compilation_cache() -> None:
    """Switch the compilation cache on, once per process, unless the user has decided otherwise."""
    global _is_decided
    setting = os.environ.get(VARIABLE, "")
    if _is_decided or setting.lower() in OFF:
        return
    _is_decided = True
    try:
        if not _is_set_in_jax():
            _switch_on(Path(setting) if setting else _user_cache() / "paramfilter")
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        _logger.debug("compiled code is not kept: %s", error)


def _is_set_in_jax() -> bool:
    """Whether the user has configured JAX's own cache, by its environment variables or by `jax.config`."""
    import jax

    is_given = jax.config.jax_compilation_cache_dir is not None or "JAX_COMPILATION_CACHE_DIR" in os.environ
    return is_given or not jax.config.jax_enable_compilation_cache


def _user_cache() -> Path:
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".cache"


def _switch_on(root: Path) -> None:
    import jax
    from jax.experimental.compilation_cache import compilation_cache as cache_of_jax

    root = root.expanduser().resolve()
    directory = root / f"compiled-{_machine()}"
    for folder in (root, directory):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_safe(root, directory)
    jax.config.update("jax_compilation_cache_dir", str(directory))
    threshold = "jax_persistent_cache_min_compile_time_secs"
    # JAX's default is 1; any other value was set by the user.
    if getattr(jax.config, threshold) == 1.0 and threshold.upper() not in os.environ:
        jax.config.update(threshold, MIN_COMPILE_SECONDS)
    cache_of_jax.reset_cache()  # JAX decides once per process, at the first compilation, whether to cache


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

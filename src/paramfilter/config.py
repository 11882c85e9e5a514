"""Settings for the whole process: where compiled code is kept between processes.

JAX compiles a filter in seconds to half a minute, and forgets the result when the process ends. So the library keeps
compiled code on disk, and the next process loads it. The first program that the library compiles switches JAX's
compilation cache on, unless you have configured it. The environment can turn this off, or move it:

    PARAMFILTER_COMPILATION_CACHE=off
    PARAMFILTER_COMPILATION_CACHE=/scratch/me

By default it is in `~/.cache/paramfilter`, or where your system keeps such files. Three rules make it safe to use
unasked:

1. Your settings win. If `jax_compilation_cache_dir` is set, or JAX's cache is disabled, the library changes nothing.
2. Code compiled for one machine is not loaded on another. JAX looks a program up by the CPU's instructions,
   `XLA_FLAGS` and its own version, so machines may share a home directory.
3. Only you can write there. Whoever can write to the directory can run code in your process, so it is used only if it
   belongs to you and nobody else can write to it.

It grows with each program that is new; to bound it, set JAX's `jax_compilation_cache_max_size`. A directory that cannot
be used, such as a read-only home, is no error: each process then compiles for itself.
"""

from __future__ import annotations

import functools
import logging
import os
import stat
from pathlib import Path

import platformdirs

VARIABLE = "PARAMFILTER_COMPILATION_CACHE"
OFF = ("off", "0", "false", "no")

MIN_COMPILE_SECONDS, DEFAULT_OF_JAX = 0.0, 1.0
"""Programs that compile faster are not kept. Loading takes a few ms even for the smallest; compiling them takes 80."""


@functools.cache
def use_compilation_cache() -> None:
    """Switch the compilation cache on, once per process, unless the user has decided otherwise."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache as cache_of_jax

    setting = os.environ.get(VARIABLE, "")
    is_decided = jax.config.jax_compilation_cache_dir is not None or not jax.config.jax_enable_compilation_cache
    if is_decided or setting.lower() in OFF:
        return
    try:
        folder = Path(setting).expanduser() if setting else platformdirs.user_cache_path("paramfilter")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_safe(folder)
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        logging.getLogger(__name__).debug("compiled code is not kept: %s", error)
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    if jax.config.jax_persistent_cache_min_compile_time_secs == DEFAULT_OF_JAX:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)
    cache_of_jax.reset_cache()  # JAX decides once per process, at the first compilation, whether to cache


def _require_safe(folder: Path) -> None:
    """Refuse a folder to which another user can write, or which another user can exchange for one of theirs."""
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} is not writable")
    if os.name != "posix":  # Windows: a user's profile is closed to others
        return
    own, above = folder.stat(), folder.resolve().parent.stat()
    is_open = above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX  # sticky: others cannot rename it
    if own.st_uid != os.getuid() or own.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or is_open:
        raise PermissionError(f"{folder} is open to other users")

"""JAX's persistent compilation cache, on by default, in the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path

_VARIABLE = "LAFR_MJX_CACHE"


def cache_folder() -> Path:
    """Where this software keeps what it can make again; `LAFR_MJX_CACHE` moves it."""
    import platformdirs

    given = os.environ.get(_VARIABLE, "")
    if given and given != "off":
        return Path(given).expanduser()
    return Path(platformdirs.user_cache_dir("lafr-mjx"))


def enable() -> None:
    """Keep compiled programs between runs, unless JAX was told otherwise already."""
    import jax

    if os.environ.get(_VARIABLE) == "off" or jax.config.jax_compilation_cache_dir:
        return
    folder = cache_folder() / "xla"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a read-only home: compile each time
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)

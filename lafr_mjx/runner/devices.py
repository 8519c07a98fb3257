"""Cores and accelerators of this process as JAX sees them, and how many runs they fly at once."""

from __future__ import annotations

import os

from lafr_mjx.errors import InputError

ON_ACCELERATOR = 64
"""Runs per accelerator at once, by default."""


def use_all_cores(wanted: int | None) -> None:
    """Before JAX starts: on CPU each core becomes a device of its own, with one thread.

    So runs, which never wait for each other, are what the cores share, not the parts of one.
    """
    import jax

    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_force_host_platform_device_count" in flags:
        return  # the user's own choice
    there = len(os.sched_getaffinity(0))
    cores = min(wanted or there, there)
    try:
        jax.config.update("jax_num_cpu_devices", cores)
    except RuntimeError:
        return  # JAX has begun already; its devices are what they are
    if cores > 1:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()


def check_devices(wanted: int) -> None:
    """Refuse more cores or accelerators than there are; begins JAX."""
    use_all_cores(wanted)
    import jax

    there = len(jax.devices())
    if wanted > there:
        raise InputError(
            f"--devices {wanted}: JAX has {there} here ({jax.devices()[0].device_kind}); give at "
            f"most that, or leave it out to use all"
        )


def usual_size(runs: int, devices: int) -> int:
    """Runs per chunk: one for each core, or as many as an accelerator usually has room for.

    One run per core does the work of single runs and no more: a batch of one pays for no
    batched products of small matrices.
    """
    import jax

    each = 1 if jax.devices()[0].platform == "cpu" else ON_ACCELERATOR
    even = -(-runs // devices)  # so that the last chunk is not padded more than need be
    return devices * max(1, min(each, even))

"""Chunks of an ablation on a Ray cluster: Ray decides who flies what, and repeats what is lost."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.experiments.ablation_chunk import Chunk, FlownRun, fly_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RETRIES = 3
"""How often a chunk is flown again after its worker or machine was lost."""


class Cluster:
    """A connection to a running Ray cluster; a context manager."""

    def __init__(self, address: str) -> None:
        """Connect; `address` as Ray takes it: HOST:PORT, ray://HOST:PORT or auto."""
        try:
            import ray
        except ImportError as error:
            raise InputError(
                "--ray: Ray is not installed; install it with: pip install 'lafr-mjx[cluster]'"
            ) from error
        self._ray = ray
        _check_reachable(address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # Ray raises many kinds; all mean that there is no cluster
            first = (str(error).strip() or repr(error)).splitlines()[0]
            raise InputError(f"--ray {address}: no connection to a Ray cluster: {first}") from error

    @property
    def gpus(self) -> int:
        """Accelerators of the whole cluster."""
        return int(self._ray.cluster_resources().get("GPU", 0))

    def fly(self, chunks: Sequence[Chunk]) -> Iterator[list[FlownRun]]:
        """Chunks as they come back, each once.

        Raises:
            RunError: at the end, if some chunks could not be flown; the others came back.
        """
        needs: dict[str, Any] = {"num_gpus": 1} if self.gpus else {"num_cpus": 1}
        remote = self._ray.remote(max_retries=_RETRIES, **needs)(_fly)
        stored: dict[int, Any] = {}
        waiting: dict[Any, Chunk] = {}
        for chunk in chunks:
            # The base policies travel once for each task, not once for each chunk.
            key = id(chunk.policies)
            if key not in stored:
                stored[key] = self._ray.put(chunk.policies)
            waiting[remote.remote(chunk._replace(policies={}), stored[key])] = chunk
        failures: list[str] = []
        while waiting:
            (ready, *_), _ = self._ray.wait(list(waiting), num_returns=1)
            chunk = waiting.pop(ready)
            try:
                flown = self._ray.get(ready)
            except self._ray.exceptions.RayError as error:
                reason = str(error).strip().splitlines()[-1]
                failures.append(f"{chunk.names[0]} and {len(chunk.names) - 1} more: {reason}")
                continue
            yield flown
        if failures:
            raise RunError("some chunks failed; try again to go on:\n" + "\n".join(failures))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself would try for half a minute, and then say much."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return  # "auto": Ray looks by itself
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(
            f"--ray {address}: no connection to a Ray cluster: {error}; give HOST:PORT of a "
            f"cluster that was begun with: ray start --head"
        ) from error


def _fly(chunk: Chunk, policies: dict[int, Any]) -> list[FlownRun]:
    """On a worker. Ray gives it one core or one accelerator, so it takes no more."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    return fly_chunk(chunk._replace(policies=policies), devices=1)

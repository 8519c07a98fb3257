"""Jobs on a Ray cluster: Ray decides who runs what, and repeats what is lost."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import lafr_mjx
from lafr_mjx.closing import Closing
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.runner.job import Outcome

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from lafr_mjx.runner.job import Flown, Job

_RETRIES = 3
"""How often a job is run again after its worker or machine was lost."""

_ANSWER_S = 45.0
"""How long a cluster may take to answer; the usual is two seconds."""

_PROBE = """
import logging, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)
ray.shutdown()
"""


def check_address(address: str) -> None:
    """Refuse what cannot be one; Ray would take "local" for a cluster of its own making."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address != "auto" and not (host and port.isdecimal()):
        raise InputError(f"--ray '{address}': must be HOST:PORT, ray://HOST:PORT or auto")


class Cluster(Closing):
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
        check_address(address)
        _check_reachable(address)
        _check_answer(address)
        ended_by = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # Ray raises many kinds; all mean that there is no cluster
            first = (str(error).strip() or repr(error)).splitlines()[0]
            raise InputError(f"{_no_cluster(address)}: {first}") from error
        with suppress(ValueError):  # not the main thread: nobody took it
            signal.signal(signal.SIGTERM, ended_by)  # Ray took it, and would end without a word
        if not self.gpus and ray.cluster_resources().get("CPU", 0) < 1:
            ray.shutdown()
            raise InputError(
                f"--ray {address}: the cluster has neither a core nor an accelerator; add a "
                f"machine with: ray start --address HOST:PORT"
            )

    @property
    def gpus(self) -> int:
        """Accelerators of the whole cluster."""
        return int(self._ray.cluster_resources().get("GPU", 0))

    def outcomes(self, jobs: Sequence[Job], flown: Flown) -> Generator[Outcome]:
        """Outcomes as jobs end; each needs one core, or one accelerator where there are any."""
        needs: dict[str, Any] = {"num_gpus": 1} if self.gpus else {"num_cpus": 1}
        remote = self._ray.remote(max_retries=_RETRIES, **needs)(_fly)
        stored: dict[int, Any] = {}
        waiting: dict[Any, Job] = {}
        for job in jobs:
            key = id(job.shared)
            if key not in stored:
                stored[key] = self._ray.put(job.shared)
            there = job._replace(shared=None)
            waiting[remote.remote(there, stored[key], lafr_mjx.__version__)] = job
        while waiting:
            (ready, *_), _ = self._ray.wait(list(waiting), num_returns=1)
            job = waiting.pop(ready)
            flown(job.flights)
            try:
                outcome = Outcome(job, self._ray.get(ready))
            except self._ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None)
                outcome = Outcome(job, error=cause if isinstance(cause, Exception) else error)
            yield outcome

    def close(self) -> None:
        """Leave the cluster."""
        self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself would try for half a minute, and then say much."""
    if address == "auto":
        return  # Ray looks by itself
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"{_no_cluster(address)}: {error}; give HOST:PORT of a cluster that was begun with: "
            f"ray start --head"
        ) from error


def _check_answer(address: str) -> None:
    """Connect in a process of its own first.

    In this one, a port where no cluster answers would hold Ray for minutes, or end the
    process without a word: neither can be caught.
    """
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE, address],
            capture_output=True, text=True, errors="replace", timeout=_ANSWER_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"{_no_cluster(address)}: no answer within {_ANSWER_S:.0f} s; give the address that "
            f"ray start --head printed"
        ) from error
    if probe.returncode:
        reason = _last_line(probe.stderr) or f"the attempt ended with status {probe.returncode}"
        if "Failed to connect" in reason:  # Ray does not say that a token was wrong
            reason += "; if the cluster has a token, RAY_AUTH_TOKEN must hold it here, too"
        raise InputError(f"{_no_cluster(address)}: {reason}")


def _no_cluster(address: str) -> str:
    return f"--ray {address}: no connection to a Ray cluster"


def _last_line(text: str) -> str:
    """Of a message of many lines, e.g. a traceback, the one that says what happened."""
    return text.strip().split("\n")[-1]


def _fly(job: Job, shared: Any, version: str) -> Any:
    """On a worker. Ray gives it one core or one accelerator, so it takes no more."""
    if version != lafr_mjx.__version__:
        raise RunError(
            f"{socket.gethostname()} has lafr-mjx {lafr_mjx.__version__}, not {version}: install "
            f"the same version on every machine"
        )
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    return job.function(*job.arguments, shared, lambda flights: None)

"""A Ray cluster of two nodes on this computer, begun as a user begins one, ended in any case."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

START_S, LIFE_S = 600.0, 3600.0  # a cluster whose test was killed ends by itself after the latter


def environment() -> dict[str, str]:
    """For nodes and those who connect to them: a token of their own, and no word to anyone.

    Ray listens on all networks of a computer; without the token anyone there could run programs.
    """
    return os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }


@contextmanager
def two_nodes(env: dict[str, str]):
    """Yields the address and the two processes, each with a node of one core below it."""
    # Ray's sockets lie there, and their paths must be short.
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    nodes: list[psutil.Popen] = []
    try:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # Ray takes 127.0.0.1 for any address of this computer, but not these two.
        head, other = "127.0.0.2", "127.0.0.3"
        nodes.append(_start(folder, env, head, "--head", f"--port={port}",
                            "--include-dashboard=false", f"--temp-dir={folder}"))  # fmt: skip
        _wait_for(nodes[0], folder / head)
        nodes.append(_start(folder, env, other, f"--address={head}:{port}"))
        _wait_for(nodes[1], folder / other)
        yield f"{head}:{port}", nodes
    finally:
        for node in reversed(nodes):
            end(node)
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, env: dict[str, str], ip: str, *arguments: str) -> psutil.Popen:
    ray = Path(sys.executable).parent / "ray"
    command = [
        "timeout", f"{LIFE_S:.0f}", str(ray), "start", "--block", f"--node-ip-address={ip}",
        "--num-cpus=1", f"--object-store-memory={100 * 2**20}",
        "--min-worker-port=0", "--max-worker-port=0",  # or both nodes would count from the same
        *arguments,
    ]  # fmt: skip
    with (folder / ip).open("wb") as log:
        return psutil.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)


def _wait_for(node: psutil.Popen, log: Path) -> None:
    ends = time.monotonic() + START_S
    while "Ray runtime started" not in log.read_text(errors="replace"):
        assert node.poll() is None and time.monotonic() < ends, log.read_text(errors="replace")
        time.sleep(0.1)


def below(process: psutil.Process) -> list[psutil.Process]:
    """All processes that it began and that they began."""
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def flying(node: psutil.Process) -> list[psutil.Process]:
    """The workers of a node that fly a chunk at this moment."""
    found = []
    for process in below(node):
        try:
            title = " ".join(process.cmdline())
        except psutil.Error:
            continue  # it has just ended
        if title.startswith("ray::") and "_fly" in title:
            found.append(process)
    return found


def end(process: psutil.Popen) -> None:
    """End a process and all below it, and wait until they are gone."""
    left = [process, *below(process)]
    with suppress(psutil.NoSuchProcess):
        process.terminate()
    _, left = psutil.wait_procs(left, timeout=30)
    for each in left:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(left, timeout=120)

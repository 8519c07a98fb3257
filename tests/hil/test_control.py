# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalCall=false
"""The control process: that it needs no JAX and imports nothing in flight; memory, console."""

import json
import math
import os
import shutil
import socket
import subprocess
import sys

import pytest
from control_legs import leg
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx.hil.control.console import Console
from lafr_mjx.hil.control.legs import save_leg


def test_control_and_stop_import_no_jax():
    code = (
        "import sys\nimport lafr_mjx.hil.control.control_process, lafr_mjx.hil.__main__\n"
        "import lafr_mjx.hil.safety.emergency_stop, lafr_mjx.hil.drones.agilicious\n"
        "print([m for m in ('jax', 'jaxlib', 'flax', 'optax', 'orbax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_is_imported_in_flight(tmp_path):
    """What the control process does with a leg and with messages has been done before."""
    file = save_leg(tmp_path, leg())
    code = (
        "import pathlib, socket, sys\n"
        "import numpy as np\n"
        "import lafr_mjx.hil.control.control_process\n"
        "from lafr_mjx.hil.wire import ros_messages as m\n"
        "from lafr_mjx.hil.control.legs import check_leg, load_leg, try_leg\n"
        "from lafr_mjx.hil.safety.drone_profile import load_profile\n"
        "from lafr_mjx.hil.control.warm_up import warm_up\n"
        "profile = load_profile('sim')\n"
        "if sys.argv[2] == 'warm': warm_up(profile)\n"
        "before = set(sys.modules)\n"
        "leg = load_leg(pathlib.Path(sys.argv[1]))\n"
        "assert not check_leg(leg, profile)\n"
        "try_leg(leg, np.zeros((9, len(leg.policy.network.layers[0].weight)), np.float32))\n"
        "m.decode('std_msgs/String', m.encode('std_msgs/String', m.text('x')))\n"
        "socket.getaddrinfo('127.0.0.1', 9, socket.AF_INET, socket.SOCK_STREAM)\n"
        "print(sorted(set(sys.modules) - before))"
    )
    told = [
        subprocess.run([sys.executable, "-c", code, str(file), how], capture_output=True,
                       text=True, check=True).stdout.strip()
        for how in ("warm", "cold")
    ]  # fmt: skip
    assert told[0] == "[]"
    assert "encodings.cp437" in told[1] and "encodings.idna" in told[1]


# ------------------------------------------------------------------ memory


def test_memory_is_kept_where_that_is_allowed():
    script = (
        "import re, threading\n"
        "from lafr_mjx.hil.timing.priority import keep_in_memory\n"
        "locked = keep_in_memory()\n"
        "thread = threading.Thread(target=lambda: bytearray(1 << 22))\n"
        "thread.start()\n"
        "thread.join()\n"
        "status = open('/proc/self/status').read()\n"
        "kept = int(re.search(r'VmLck:\\s+(\\d+)', status)[1])\n"
        "assert (kept > 1000) == locked, (kept, locked)\n"
        "print(locked)\n"
    )

    def run(*limit):
        command = [*limit, sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run() in ("True", "False")
    if shutil.which("setpriv") and os.geteuid() == 0:
        # With a limit an allocation in flight could fail: better not locked at all.
        assert run("setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock") == "False"


def test_matrix_products_at_the_same_time_take_no_new_memory_in_flight():
    """32 MB for each would be allocated, and locked, in the middle of a tick."""
    script = (
        "import os, sys\n"
        "from lafr_mjx.hil.timing.priority import keep_in_memory, memory_mb\n"
        "from lafr_mjx.hil.timing.priority import reserve_matrix_memory\n"
        "locked = keep_in_memory()\n"
        "reserve_matrix_memory(int(sys.argv[1]))\n"
        "before = memory_mb(os.getpid())\n"
        "reserve_matrix_memory(3)\n"
        "print(memory_mb(os.getpid()) - before if locked else 'nan')\n"
    )

    def grows(reserved):
        command = [sys.executable, "-c", script, str(reserved)]
        one = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=one)
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    unprepared = grows(1)
    if math.isnan(unprepared):
        pytest.skip("memory cannot be locked here: it grows page by page")
    assert unprepared > 32.0, "megabytes: what it is for"
    assert grows(3) < 16.0


# ------------------------------------------------------------------ console


def consoles():
    one, two = socket.socketpair()
    return Console(one), Console(two), one, two


def test_console_carries_lines_and_notices_the_end():
    one, two, *_ = consoles()
    one.send({"word": "arm"})
    one.send({"leg": "x", "number": 3})
    assert two.receive() == [{"word": "arm"}, {"leg": "x", "number": 3}]
    one.close()
    two.receive()
    assert two.closed


def test_console_never_blocks_nor_grows():
    one, *_ = consoles()
    for _ in range(20_000):
        one.send({"status": "x" * 200})
    assert len(one._waiting) < 200_000


@settings(deadline=None, max_examples=50)
@given(st.lists(st.binary(max_size=300), max_size=10))
def test_console_survives_nonsense(chunks):
    _, two, raw, _ = consoles()
    for chunk in chunks:
        raw.setblocking(True)
        raw.sendall(chunk)
        assert all(isinstance(message, dict) for message in two.receive())
    raw.sendall(b"\n" + json.dumps({"good": 1}).encode() + b"\n")
    assert two.receive()[-1] == {"good": 1}

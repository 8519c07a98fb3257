# pyright: reportOptionalMemberAccess=false
"""Processes that are started for a flight end with it, whatever they do."""

import os
import signal
import time
from pathlib import Path

from waiting import wait_for

from lafr_mjx.hil.operator import child_process

DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True)"


def test_one_that_does_not_listen_is_killed(tmp_path):
    log = tmp_path / "log.txt"
    process = child_process.start(["-c", f"{DEAF}; time.sleep(600)"], log)
    wait_for(lambda: child_process.last_line(log) == "deaf", what="its start")
    child_process.end(process, 0.2)
    assert process.returncode == -signal.SIGKILL


def test_one_that_is_stopped_is_killed(tmp_path):
    process = child_process.start(["-c", "import time; time.sleep(600)"], tmp_path / "log.txt")
    process.send_signal(signal.SIGSTOP)
    stat = Path(f"/proc/{process.pid}/stat")
    wait_for(lambda: stat.read_text().rsplit(") ", 1)[1][0] == "T", what="its stop")
    child_process.end(process, 0.2)
    assert process.returncode == -signal.SIGKILL


def test_one_that_reads_ends_by_itself_when_we_close(tmp_path):
    log = tmp_path / "log.txt"
    code = "import sys; print(sys.stdin.read().strip())"
    process = child_process.start(["-c", code], log, listens=True)
    process.stdin.write(b"a word")
    process.stdin.close()
    process.wait(120.0)
    child_process.end(process)
    assert process.returncode == 0 and child_process.last_line(log) == "a word"


def test_what_was_said_before_is_kept(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("earlier\n")
    child_process.start(["-c", "print('later')"], log).wait(120.0)
    assert log.read_text().split() == ["earlier", "later"]


def test_it_is_not_reached_by_our_ctrl_c(tmp_path):
    process = child_process.start(["-c", "import time; time.sleep(600)"], tmp_path / "log.txt")
    try:
        time.sleep(0.1)
        assert os.getpgid(process.pid) != os.getpgid(0)
    finally:
        child_process.end(process, 5.0)

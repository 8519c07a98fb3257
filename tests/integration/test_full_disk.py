"""A disk that fills up: at each write of a run in turn, and the run goes on as if it had not."""

from __future__ import annotations

import errno
import os
import re
import sys

import pytest

from lafr_mjx import cli
from lafr_mjx.adaptation.adaptation_job import AdaptationJob
from lafr_mjx.adaptation.adaptation_report import AdaptationReport
from lafr_mjx.commands.adapt import Adapt
from lafr_mjx.errors import InputError
from lafr_mjx.learner.loop import Adaptation
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.runs.run_folder import RunFolder

FLIGHTS = 2


class Disk:
    """Counts what is opened to be written and what is forced to the disk; one of it may fail."""

    def __init__(self):
        self.folder, self.count, self.full_at = "nowhere", 0, None
        sys.addaudithook(self._opened)

    def _opened(self, event, arguments):
        if event != "open":
            return
        path, _, flags = arguments
        lock = str(path).endswith(".lock")
        if str(path).startswith(self.folder) and flags & (os.O_WRONLY | os.O_RDWR) and not lock:
            self.step()

    def step(self):
        self.count += 1
        if self.count == self.full_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def job():
    spec = RunSpec("figure8", "nominal", reference="fixed", engine="freebody", iterations=FLIGHTS)
    return AdaptationJob.build(spec)


@pytest.fixture(scope="module")
def disk():
    disk = Disk()
    yield disk
    disk.folder = "nowhere"


@pytest.fixture(scope="module")
def flown():
    """The first flight and what it left, once it was flown."""
    return []


@pytest.fixture
def quick(monkeypatch, disk, flown):
    """All flights are the first one: only what is written counts here."""
    really = Adaptation.step

    def step(run, stage):
        if not flown:
            flown.append((really(run, stage), run.plants.state, run.state))
        flights, run.plants.state, run.state = flown[0]
        return flights

    monkeypatch.setattr(Adaptation, "step", step)
    force = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (disk.step(), force(descriptor)))


def fly(job, path, disk, full_at=None):
    """As the command does, without the plots."""
    disk.folder, disk.count, disk.full_at = str(path), 0, full_at
    try:
        with (
            RunFolder.open(path, resume=True)
            if (path / "config.toml").exists()
            else RunFolder.create(path, job.config())
        ) as folder:
            job.check_resumable(folder)
            report = AdaptationReport(folder, job)
            job.work(folder, report)
            return report
    finally:
        disk.folder = "nowhere"


def test_whichever_write_fails_each_flight_is_there_once(
    tmp_path, job, disk, quick, capfd, monkeypatch
):
    whole = fly(job, tmp_path / "whole", disk)
    writes = disk.count
    assert writes > 8 * FLIGHTS
    for number in range(1, writes + 1):
        path = tmp_path / f"{number}"
        monkeypatch.setattr(Adapt, "run", lambda _, p=path, n=number: fly(job, p, disk, n))
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main(["adapt"])
        assert ended.value.code in (1, 2)
        shown = capfd.readouterr()
        one_line = rf"lafr-mjx: {path}\S* .*No space left on device\n"
        assert re.fullmatch(one_line, shown.err), f"write {number}: {shown.err}"
        assert "Traceback" not in shown.out
        report = fly(job, path, disk)
        shown = capfd.readouterr()
        assert shown.err == ""
        rows = [line.split()[0] for line in shown.out.split("sat.")[1].splitlines()[1:]]
        assert rows == ["0", "1"], f"write {number}: {shown.out}"
        assert report.flown_s == pytest.approx(whole.flown_s)
        with RunFolder.open(path, resume=True) as folder:
            assert [record["iteration"] for record in folder.iterations()] == [0, 1]
            assert folder.rollout_numbers() == folder.checkpoint_numbers() == [0, 1]
        assert not list(path.rglob("*.partial"))


def test_a_run_whose_lines_were_lost_is_left_alone(tmp_path, job, disk, quick):
    fly(job, tmp_path / "run", disk)
    (tmp_path / "run" / "iterations.jsonl").write_text("")
    with pytest.raises(InputError, match=r"iterations\.jsonl has 0 lines, but .* after flight 2"):
        fly(job, tmp_path / "run", disk)
    assert len(list((tmp_path / "run").rglob("*.npz"))) == 5

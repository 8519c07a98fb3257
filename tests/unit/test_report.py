"""`lafr-mjx report` on made-up runs: sections, what is left out, files that are replaced whole."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from report_runs import write_run

from lafr_mjx.commands.report import Report
from lafr_mjx.commands.reproduce import Reproduce
from lafr_mjx.errors import InputError
from lafr_mjx.report.paper_runs import PaperRuns
from lafr_mjx.report.sections import SECTIONS
from lafr_mjx.run_spec import RunSpec

WIND = RunSpec("figure8", "wind5", reference="fixed", iterations=3, engine="freebody", seed=100)


def headings(page):
    return re.findall(r"<h2[^>]*>([^<]*)</h2>", page)


def test_everything_that_was_planned(tmp_path, capsys):
    """A folder that is complete is only reported: nothing is flown."""
    flights = {("figure8", "wind5"): (0, 1, 10), ("figure8", "nominal"): (0, 11),
               ("shuttle", "nominal"): (0, 11), ("inspection", "fan"): (0, 11)}  # fmt: skip
    for spec in PaperRuns((100,), "freebody").reproduced():
        usual = spec.method in ("ours", "baseline") and spec.horizon == 30 and spec.ats != "hold"
        write_run(tmp_path, spec, flights.get((spec.task, str(spec.scenario)), ()) if usual else ())
    (tmp_path / "bounds").mkdir()
    for task in ("figure8", "shuttle", "dash", "inspection"):
        figures = {"task": task, "ctbr_exact_path_s": 2.24, "uniform_ceiling_s": 2.56,
                   "failures": []}  # fmt: skip
        (tmp_path / "bounds" / f"{task}.json").write_text(json.dumps(figures))
    Reproduce(out=tmp_path, seeds=(100,), engine="freebody").run()
    assert "31 runs" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    assert headings(page)[0] == "Summary against the paper"
    for title in SECTIONS:
        assert title in headings(page)
    assert "Without data" not in page
    # Pictures are inside; nothing is fetched.
    assert page.count('src="data:image/png;base64,') == page.count("<img") >= 12
    assert "http" not in page
    for verdict in ("reproduced", "better"):
        assert f">{verdict}</span>" in page
    assert "lafr-mjx adapt figure8 --scenario wind5 --method lotf --seed 100" in page
    twin = (tmp_path / "report.md").read_text()
    pictures = re.findall(r"\]\((report_files/[^)]+)\)", twin)
    assert len(pictures) == page.count("<img")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    assert len(list((tmp_path / "report_files").iterdir())) == len(pictures)


def test_what_has_no_data_is_left_out_and_named(tmp_path):
    path = write_run(tmp_path, WIND, flights=(0,))
    out = tmp_path / "report.html"
    Report((path,), out).run()
    page = out.read_text()
    assert "Learning curves" in headings(page) and "Hardware variations" not in headings(page)
    assert "Without data: Ablation" in page
    assert "Unfinished" not in page
    assert "1 adaptation run on figure8; seed 100; engine freebody." in page


@pytest.mark.parametrize(
    ("own", "words"),
    [({"vehicle": "kingfisher"}, "vehicle kingfisher"), ({"ats": "hold"}, "time scaling hold"),
     ({"horizon": 60}, "horizon 60"), ({"features": "delay"}, "features delay")],
)  # fmt: skip
def test_any_run_has_learning_curves(tmp_path, own, words):
    run = write_run(tmp_path, replace(WIND, **own))
    Report((run,), tmp_path / "report.html").run()
    page = (tmp_path / "report.html").read_text()
    assert f"Learning on figure-8, wind5, {words}: one run for each method." in page
    assert "Summary against the paper" not in headings(page), "which flew something else"
    assert "<h1>Adaptation in flight</h1>" in page


def test_missing_and_broken_flights_are_told(tmp_path):
    runs = [write_run(tmp_path, replace(WIND, method=m), flights=(0, 1, 2))
            for m in ("ours", "baseline")]  # fmt: skip
    (runs[0] / "rollouts" / "001.npz").write_bytes(b"no flight")
    (runs[1] / "rollouts" / "002.npz").unlink()
    out = tmp_path / "report.html"
    Report(tuple(runs), out).run()
    page = out.read_text()
    assert "Wind: baseline against ours" in headings(page)
    assert "001.npz: cannot be read as a recorded flight" in page
    assert "has no recorded flight 2" in page


def test_a_report_is_replaced_and_other_files_are_not(tmp_path):
    path = write_run(tmp_path, WIND)
    out = tmp_path / "mine.html"
    out.write_text("<p>My notes</p>")
    with pytest.raises(InputError, match="is no report of lafr-mjx"):
        Report((path,), out).run()
    assert out.read_text() == "<p>My notes</p>"
    out.unlink()
    Report((path,), out).run()
    before = {p.name for p in (tmp_path / "mine_files").iterdir()}
    (tmp_path / "mine_files" / "notes.txt").write_text("mine")
    more = write_run(tmp_path, replace(WIND, seed=101))
    Report((path, more), out).run()
    after = {p.name for p in (tmp_path / "mine_files").iterdir()}
    # The curves are others now; the picture of the first seed is still shown.
    assert "notes.txt" in after and len(after) == len(before) + 1
    assert {name for name in before - after if name.startswith("learning-")}
    assert all(name in (tmp_path / "mine.md").read_text() for name in after - {"notes.txt"})
    assert not [p for p in tmp_path.rglob(".*.partial")]


@pytest.mark.parametrize(
    ("out", "message"),
    [("report.txt", r"must end with \.html"), ("nowhere/report.html", "does not exist")],
)
def test_bad_targets_are_refused_first(tmp_path, out, message):
    with pytest.raises(InputError, match=message):
        Report((tmp_path / "missing",), tmp_path / out).run()


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "there is no such file"), ("{", "cannot be read"), ("[]", "is not what"),
     ('{"task": "figure8", "ctbr_free_s": "fast"}', "'ctbr_free_s' is 'fast'")],
)  # fmt: skip
def test_bad_bounds(tmp_path, text, message):
    file = tmp_path / "bounds.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=message):
        Report((tmp_path,), tmp_path / "report.html", (file,)).run()


@pytest.mark.parametrize(
    ("given", "message"),
    [({"processes": 0}, "--processes 0"), ({"seeds": (-1,)}, "--seeds -1"),
     ({"quick": True, "seeds": (3,)}, "only one of them")],
)  # fmt: skip
def test_bad_plans(tmp_path, given, message):
    with pytest.raises(InputError, match=message):
        Reproduce(out=tmp_path, **given).run()

"""A report in a real browser: it loads from a file, all pictures show, nothing complains."""

from __future__ import annotations

import pytest
from report_runs import write_run
from view_runs import browser_page

from lafr_mjx.commands.report import Report
from lafr_mjx.run_spec import RunSpec


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for seed in (100, 101):
        for method in ("ours", "baseline"):
            spec = RunSpec("figure8", "wind5", method=method, reference="fixed",
                           seed=seed, iterations=3)  # fmt: skip
            write_run(folder, spec, flights=(0, 1, 2) if seed == 100 else ())
    Report((folder,), folder / "report.html").run()
    return folder / "report.html"


def test_in_a_browser(page_file):
    requests = []
    with browser_page(viewport={"width": 1200, "height": 900}) as (page, complaints):
        page.on("request", lambda request: requests.append(request.url))
        page.goto(page_file.as_uri())
        page.get_by_role("heading", name="Summary against the paper").wait_for()
        widths = page.eval_on_selector_all("img", "all => all.map(one => one.naturalWidth)")
        assert len(widths) >= 4 and min(widths) > 300
        # Nothing sticks out sideways, on a wide and on a narrow screen.
        for width in (1200, 400):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.get_by_role("link", name="Learning curves").click()
        assert page.url.endswith("#learning-curves")
    assert complaints == []
    assert [url[:40] for url in requests if not url.startswith(("file:", "data:"))] == []

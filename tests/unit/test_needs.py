"""What a test needs and does not find is a reason to skip it, but not where all must be there."""

from pathlib import Path

import pytest
from needs import require_module


def test_what_is_missing_is_skipped_or_a_failure(monkeypatch):
    words = r"needs no_such: pip install 'lafr-mjx\[web\]'"
    monkeypatch.delenv("LAFR_MJX_NO_SKIP", raising=False)
    with pytest.raises(pytest.skip.Exception, match=words):
        require_module("no_such", "web")
    monkeypatch.setenv("LAFR_MJX_NO_SKIP", "1")
    with pytest.raises(pytest.fail.Exception, match=words):
        require_module("no_such", "web")


def test_no_test_skips_in_another_way():
    tests = Path(__file__).parents[1]
    others = [p.name for p in tests.rglob("*.py") if "importorskip" in p.read_text()]
    assert others == [Path(__file__).name]

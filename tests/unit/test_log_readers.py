"""A format of logs is one file: found, listed, and read by `fit` with nothing else touched."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
from log_flights import fly, raw_log, save_npz

from lafr_mjx.commands.fit import Fit
from lafr_mjx.errors import InputError
from lafr_mjx.logs import log_readers, readers
from lafr_mjx.logs.log_readers import LogReader, known_formats, read_logs

# A whole reader: what somebody who adds a format writes.
SOURCE = """
import json
import numpy as np
from lafr_mjx.logs.log_readers import LogReader
from lafr_mjx.logs.raw_log import RawLog, Signal

class RatesReader(LogReader):
    label = ".rates (JSON)"
    suffixes = (".rates",)

    def read(self, path, options):
        data = {name: np.array(rows) for name, rows in json.loads(path.read_text()).items()}
        signals = [Signal(data["t"], data[name], name, name == "w_cmd") for name in ("w", "w_cmd")]
        return [RawLog(path, path.stem, rates=signals[0], rate_command=signals[1])]

READER = RatesReader()
"""


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(log_readers, "_registered", [])
    yield
    log_readers._shipped.cache_clear()


def save_rates(path):
    import json

    command = np.cumsum(np.random.default_rng(0).normal(size=(1200, 3)), axis=0) * 0.05
    rates = np.concatenate([command[:1].repeat(3, 0), command[:-3]])
    signals = {"t": 0.01 * np.arange(1200), "w": rates, "w_cmd": command}
    path.write_text(json.dumps({name: values.tolist() for name, values in signals.items()}))
    return path


@pytest.mark.parametrize("how", ["module", "registered"])
def test_a_format_of_its_own_is_fitted_to(tmp_path, monkeypatch, how):
    """As a module beside those that ship, or registered from a file of the user's."""
    with pytest.raises(InputError, match="no log that is known"):
        read_logs(save_rates(tmp_path / "flight.rates"))
    if how == "module":
        (tmp_path / "more").mkdir()
        (tmp_path / "more" / "json_rates.py").write_text(SOURCE)
        monkeypatch.setattr(readers, "__path__", [*readers.__path__, str(tmp_path / "more")])
        log_readers._shipped.cache_clear()
    else:
        names: dict = {}
        exec(SOURCE, names)
        log_readers.register(names["READER"])
    found = Fit((tmp_path / "flight.rates",), out=tmp_path / "report").run()
    assert found["hybrid_rates_dps"] < 0.1 * found["nominal_rates_dps"]
    assert ".rates (JSON)" in known_formats()
    (tmp_path / "a.xyz").write_text("")
    with pytest.raises(InputError, match=r"known are .*\.npz.*\.rates \(JSON\)|\.rates.*\.npz"):
        read_logs(tmp_path / "a.xyz")
    with pytest.raises(InputError, match=r"one by one: .*flight\.rates"):
        read_logs(tmp_path)


def test_what_is_registered_comes_first(tmp_path):
    class Mine(LogReader):
        label = "mine"
        suffixes = (".npz",)

        def read(self, path, options):
            return [raw_log(fly(2.0))]

    path = save_npz(tmp_path / "a.npz", fly(2.0))
    log_readers.register(Mine())
    assert read_logs(path)[0].name == "made"


def test_the_help_lists_what_is_registered(monkeypatch):
    from lafr_mjx import cli

    out = StringIO()
    monkeypatch.setattr("sys.stdout", out)
    with pytest.raises(SystemExit):
        cli.main(["fit", "--help"])
    text = " ".join(out.getvalue().replace("│", " ").split())
    for suffix in (".npz", ".csv", ".parquet", ".bag", ".mcap", "run folders"):
        assert suffix in text

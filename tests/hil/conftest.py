import fault_table
import pytest

from lafr_mjx.hil.master import Master


@pytest.fixture
def master():
    with Master() as running:
        yield running


def pytest_terminal_summary(terminalreporter):
    rows = fault_table.lines()
    if rows:
        terminalreporter.section("faults: from the beginning of the fault to the reaction")
        for row in rows:
            terminalreporter.write_line(row)

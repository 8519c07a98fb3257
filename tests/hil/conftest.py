import fault_table
import flown_again
import pytest

from lafr_mjx.hil.master import Master


@pytest.fixture
def master():
    with Master() as running:
        yield running


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    return flown_again.protocol(item, nextitem)


def pytest_unconfigure():
    flown_again.close()


def pytest_terminal_summary(terminalreporter):
    if flown_again.stalls:
        terminalreporter.section("flown again, for the machine itself stood still")
        for name, late in flown_again.stalls:
            terminalreporter.write_line(f"{name}: a bare loop was late by {1e3 * late:.0f} ms")
    rows = fault_table.lines()
    if rows:
        terminalreporter.section("faults: from the beginning of the fault to the reaction")
        for row in rows:
            terminalreporter.write_line(row)

import fault_table
import pytest
from flown_again import FlownAgain

from lafr_mjx.hil.master import Master

flown_again = FlownAgain()


@pytest.fixture
def master():
    with Master() as running:
        yield running


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    return flown_again.protocol(item, nextitem)


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.OK and flown_again.too_many:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure():
    flown_again.close()


def pytest_terminal_summary(terminalreporter):
    lines = list(flown_again.lines())
    if lines:
        terminalreporter.section("the machine itself stood still")
        for line in lines:
            terminalreporter.write_line(line)
    rows = fault_table.lines()
    if rows:
        terminalreporter.section("faults: from the beginning of the fault to the reaction")
        for row in rows:
            terminalreporter.write_line(row)

import pytest

from lafr_mjx.hil.master import Master


@pytest.fixture
def master():
    with Master() as running:
        yield running

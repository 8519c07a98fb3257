import fault_table
import pytest
from waiting import wait_for
from wire_rig import KIND, TOPIC

from lafr_mjx.hil.wire.node import Node
from lafr_mjx.hil.wire.ros_master import Master


@pytest.fixture
def master():
    with Master() as running:
        yield running


@pytest.fixture
def pair(master):
    """A publisher and a subscriber, connected."""
    with Node("/sender", master.uri) as sender, Node("/listener", master.uri) as listener:
        publisher = sender.advertise(TOPIC, KIND)
        subscriber = listener.subscribe(TOPIC, KIND)
        sender.start()
        listener.start()
        wait_for(lambda: publisher.subscribers and subscriber.connected, what="a connection")
        yield sender, publisher, listener, subscriber


@pytest.fixture(scope="module")
def plant():
    from lafr_mjx.hil.simulator.physics import Physics  # with JAX, which few of these tests need
    from lafr_mjx.plant.scenario import load_scenario
    from lafr_mjx.plant.vehicle import load_vehicle

    settings = load_scenario("wind5").drawn(0).settings_for(0)[0]
    return Physics(load_vehicle("lafr192"), settings)


@pytest.fixture
def bench(tmp_path):
    from mavlink_bench import Bench

    made = []

    def make(*args, **options):
        made.append(Bench(tmp_path, *args, **options))
        return made[-1]

    yield make
    for one in made:
        one.drone.close()


def pytest_terminal_summary(terminalreporter):
    rows = fault_table.lines()
    if rows:
        terminalreporter.section("faults: from the beginning of the fault to the reaction")
        for row in rows:
            terminalreporter.write_line(row)

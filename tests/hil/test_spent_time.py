"""Where a period of the control loop went."""

import re
import threading
import time

from lafr_mjx.hil.spent_time import SpentTime


def parts(told):
    return {
        name: (float(took), float(worked))
        for name, took, worked in re.findall(r"(\w+) ([0-9.]+) ms \(([0-9.]+) working\)", told)
    }


def test_work_and_waiting_are_told_apart_and_what_is_short_is_not_told():
    spent = SpentTime()
    spent.begin()
    time.sleep(0.02)
    spent.end("slept")
    while time.thread_time() - spent._worked < 0.01:
        pass
    spent.end("worked")
    spent.end("nothing")
    found = parts(spent.told())
    assert "nothing" not in found or found["nothing"][0] > 1.0
    assert found["slept"][0] >= 20.0 and found["slept"][1] < 5.0
    assert found["worked"][1] >= 9.9


def test_each_period_begins_anew():
    spent = SpentTime()
    time.sleep(0.01)
    spent.end("before")
    spent.begin()
    assert spent.told() == ""
    spent.end("after")
    assert parts(spent.told()).get("after", (0.0, 0.0))[0] < 10.0


def test_the_work_of_other_threads_is_not_ours():
    spent, stop = SpentTime(), threading.Event()

    def burn():
        while not stop.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=burn) for _ in range(2)]
    for thread in threads:
        thread.start()
    spent.begin()
    time.sleep(0.05)
    spent.end("slept")
    stop.set()
    for thread in threads:
        thread.join()
    took, worked = parts(spent.told())["slept"]
    assert took >= 50.0 and worked < 0.5 * took

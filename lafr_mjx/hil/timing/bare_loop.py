"""A bare 50 Hz loop: the yardstick of `check`. Prints `ready`, then its own punctuality as JSON.

python -m lafr_mjx.hil.timing.bare_loop SECONDS

It shares core and priority with the control process that it is measured beside. So it starts and
ends with ordinary priority: to lock and to free its memory takes up to 300 ms, and a control
process of the same priority would have to wait for that.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from lafr_mjx.hil.timing.priority import freeze_garbage, keep_in_memory, prefer, step_back


def main() -> None:
    """Sleep to the next tick, for so long."""
    seconds = float(sys.argv[1])
    keep_in_memory()
    freeze_garbage()
    print("ready", flush=True)
    prefer(own_core=True)
    period = 0.02
    due = time.monotonic() + period
    end = due + seconds
    late = []
    while due < end:
        while (left := due - time.monotonic()) > 0.0:
            time.sleep(left)
        late.append(time.monotonic() - due)
        due += period
    step_back(0)
    values = 1e3 * np.array(late)
    periods = (values / 20.0).astype(int)
    print(
        json.dumps(
            {
                "ticks": len(late),
                "missed_deadlines": int(periods.sum()),
                "wake_p50_ms": float(np.percentile(values, 50)),
                "wake_p99_ms": float(np.percentile(values, 99)),
                "wake_max_ms": float(values.max()),
            }
        )
    )


if __name__ == "__main__":
    main()

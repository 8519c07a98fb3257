"""What the tests of faults measured: one row for each fault and place, printed at the end.

`python fault_table.py FILE` prints the table of a file that LAFR_HIL_TABLE named.
"""

import json
import os
import statistics
import sys

ROWS = {}  # (clock, fault, where): [reactions in s], bound, end state


def note(clock, fault, where, reaction, bound, end):
    """Keep one measurement; with LAFR_HIL_TABLE also in that file, for broken runs."""
    row = ROWS.setdefault((clock, fault, where), ([], bound, end))
    row[0].append(reaction)
    path = os.environ.get("LAFR_HIL_TABLE")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps([clock, fault, where, reaction, bound, end]) + "\n")


def lines():
    """The table as text."""
    if not ROWS:
        return []
    head = f"{'clock':12} {'fault':44} {'where':9} {'times':>5} {'median':>8} {'most':>8}"
    out = [f"{head} {'bound':>8}  end state"]
    for (clock, fault, where), (reactions, bound, end) in sorted(ROWS.items()):
        median, most = 1e3 * statistics.median(reactions), 1e3 * max(reactions)
        limit = "-" if bound is None else f"{1e3 * bound:.0f} ms"
        out.append(
            f"{clock:12} {fault:44} {where:9} {len(reactions):5d} {median:5.0f} ms {most:5.0f} ms "
            f"{limit:>8}  {end}"
        )
    return out


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as measured:
        for line in measured:
            clock, fault, where, reaction, bound, end = json.loads(line)
            ROWS.setdefault((clock, fault, where), ([], bound, end))[0].append(reaction)
    print("\n".join(lines()))

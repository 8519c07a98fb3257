"""What the tests of faults measured: one row for each fault and place, printed at the end.

`python fault_table.py FILE` prints the table of a file that LAFR_HIL_TABLE named.
"""

import json
import os
import statistics
import sys

ROWS = {}  # (clock, fault, where): [reactions in s], bound, end state
ENDS = {}  # (what, where): {figure: (values, bound)}


def note(clock, fault, where, reaction, bound, end):
    """Keep one measurement; with LAFR_HIL_TABLE also in that file, for broken runs."""
    row = ROWS.setdefault((clock, fault, where), ([], bound, end))
    row[0].append(reaction)
    path = os.environ.get("LAFR_HIL_TABLE")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps([clock, fault, where, reaction, bound, end]) + "\n")


def note_end(what, where, **figures):
    """Keep how a flight ended: each figure as (value, bound)."""
    row = ENDS.setdefault((what, where), {})
    for name, (value, bound) in figures.items():
        row.setdefault(name, ([], bound))[0].append(value)
    path = os.environ.get("LAFR_HIL_TABLE")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps([what, where, figures]) + "\n")


def end_lines():
    """How flights ended, as text: median and worst of each figure, and its bound."""
    out = []
    for (what, where), figures in sorted(ENDS.items()):
        told = [
            f"{name} {statistics.median(values):.2f} / {max(values):.2f} (at most {bound:g})"
            for name, (values, bound) in figures.items()
        ]
        count = len(next(iter(figures.values()))[0])
        out.append(f"{what:44} {where:18} {count:3d} times: {', '.join(told)}")
    return out


def lines():
    """The table as text."""
    if not ROWS:
        return end_lines()
    head = f"{'clock':12} {'fault':44} {'where':9} {'times':>5} {'median':>8} {'most':>8}"
    out = [f"{head} {'bound':>8}  end state"]
    for (clock, fault, where), (reactions, bound, end) in sorted(ROWS.items()):
        median, most = 1e3 * statistics.median(reactions), 1e3 * max(reactions)
        limit = "-" if bound is None else f"{1e3 * bound:.0f} ms"
        out.append(
            f"{clock:12} {fault:44} {where:9} {len(reactions):5d} {median:5.0f} ms {most:5.0f} ms "
            f"{limit:>8}  {end}"
        )
    return out + end_lines()


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as measured:
        for line in measured:
            row = json.loads(line)
            if len(row) == 3:
                note_end(row[0], row[1], **row[2])
                continue
            clock, fault, where, reaction, bound, end = row
            ROWS.setdefault((clock, fault, where), ([], bound, end))[0].append(reaction)
    print("\n".join(lines()))

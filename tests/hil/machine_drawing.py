"""The safety state machine as a drawing and a table, made from what its code does.

`python tests/hil/machine_drawing.py` writes both into the docs; a test compares them. For each mode
the code is asked what follows from the usual there, from each cause, and from any two of them.
"""

import itertools
import math
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.safety.modes import Mode, Word
from lafr_mjx.hil.safety.state_machine import OFF_CALLS, Inputs, Machine, step, that_count
from lafr_mjx.hil.safety.trips import Fault, Rung

DOCS = Path(__file__).parents[2] / "docs"
DRAWING, PAGE = DOCS / "assets" / "safety-machine.svg", DOCS / "safety.md"
BEGIN, END = "<!-- transitions: begin -->\n", "<!-- transitions: end -->\n"

_DT = 0.02
_START = 1000.0
_PROFILE = load_profile("sim")
# Each time its own, so that it can be told which one is over, and short.
_TIMES = {
    "baseline_s": 0.72, "hover_s": 0.92, "guard_s": 1.12, "blind_s": 1.32, "rest_s": 1.52,
    "land_s": 1.72, "takeoff_s": 1.92, "armed_s": 2.12,
}  # fmt: skip
_LADDER = replace(_PROFILE.ladder, **_TIMES)
_LONGEST = 2.0 * max(_TIMES.values())

_LOW = {"height": 0.0, "last_height": 0.0, "climb": 0.0, "last_climb": 0.0}
_HIGH = {**_LOW, "height": 1.5, "last_height": 1.5}
_GROUND = {**_LOW, "seen_s": 9.0, "resting": False, "pilot_armed": True}
_AIR = {**_GROUND, **_HIGH}
_UNSEEN = {"height": None, "climb": math.nan, "seen_s": 0.0}
_USUAL = {
    Mode.DISCONNECTED: {**_GROUND, "connected": False, "pilot_armed": False},
    Mode.PREFLIGHT: {**_GROUND, "pilot_armed": False},
    Mode.ARMED: _GROUND,
    Mode.TAKEOFF: {**_AIR, "height": 0.2, "last_height": 0.2, "climb": 0.3},
    Mode.HOVER: _AIR,
    Mode.POLICY: {**_AIR, "speed": 3.0},
    Mode.BLIND: {**_AIR, **_UNSEEN, "speed": 3.0, "faults": {Fault.MOCAP_STALE}},
    Mode.LAND: {**_AIR, "climb": -0.5, "last_climb": -0.5},
    Mode.GUARD: {**_AIR, "guarded": True, "faults": {Fault.GUARDED}},
    Mode.OFF: {**_GROUND, "references": 0, "pilot_armed": False},
}
_OTHERS = {
    "all topics are there": {"connected": True},
    "a topic has gone": {"connected": False},
    "its motors are off": {"pilot_armed": False},
    "it is low and still": _LOW,
    "its height is not known": _UNSEEN,
    "the guard cannot be used": {"guardable": False},
    "our commands do not reach it": {"reachable": False},
    "it holds no reference": {"references": 0},
    "it has come to rest": {"resting": True, "speed": 0.0},
    "it moves": {"speed": 3.0},
    "it must have come down": {"fallen": True},
    "a check is bad": {"ready": False},
}
_IN_ONE_MODE = {
    Mode.TAKEOFF: {"it has risen": {**_HIGH, "speed": 0.0}},
    Mode.BLIND: {"motion capture is back": {**_AIR, "over": Fault.MOCAP_STALE}},
    Mode.GUARD: {"the guard has not triggered": {"guarded": False, "over": Fault.GUARDED}},
}


@dataclass(frozen=True)
class Way:
    """What a mode leads to."""

    to: Mode | None  # None: it stays
    after: float  # s


def _of_fault(fault):
    seen = _UNSEEN if fault.rung is Rung.BLIND else {}
    return {"faults": {fault}, **seen, **({"guarded": True} if fault is Fault.GUARDED else {})}


def _causes(mode):
    """Everything that may happen, by what it is called."""
    words = {word: {"word": word} for word in Word}
    faults = {fault: _of_fault(fault) for fault in sorted(Fault, key=lambda f: f.rung)}
    return {**words, **faults, **_OTHERS, **_IN_ONE_MODE.get(mode, {})}


def _way(mode, *given):
    """What follows if this goes on."""
    situation = dict(_USUAL[mode])
    faults = set(situation.get("faults", ())).union(*(c.get("faults", ()) for c in given))
    for changes in given:
        situation |= changes
    faults -= {situation.pop("over", None)}
    situation["faults"] = frozenset(faults)
    m = Machine(mode=mode, since=_START, clear_since=0.0, published=0.0, called=_START,
                calls=0 if mode is Mode.HOVER else OFF_CALLS, was_armed=True,
                blinds=int(mode is Mode.BLIND))  # fmt: skip
    for k in range(int(_LONGEST / _DT)):
        moment = k * _DT
        unseen = 0.0 if situation["seen_s"] else moment
        inputs = Inputs(now=_START + moment, **{"unseen_s": unseen, **situation})
        m, _ = step(m, inputs, _LADDER, _PROFILE.pilot)
        if m.mode is not mode:
            return Way(m.mode, moment)
        situation.pop("word", None)
    return Way(None, 0.0)


def _alike(mode, ways):
    """One fault for all of those of a rung that do the same, and what they are called."""
    names, chosen = {}, []
    for cause, way in ways.items():
        if not isinstance(cause, Fault):
            chosen.append(cause)
            continue
        same = {f for f in Fault if f.rung is cause.rung and ways[f] == way}
        counts = {f for f in Fault if f.rung is cause.rung
                  and that_count(frozenset({f}), Machine(mode=mode))}  # fmt: skip
        if cause not in counts:
            continue
        if counts <= same:
            names[cause] = f"a fault of *{cause.rung.name.lower()}*"
        else:
            names[cause] = f"`{cause.name}`"
        if names[cause] not in [names[c] for c in chosen if c in names]:
            chosen.append(cause)
    return chosen, names


def _named(cause, names):
    return f"the word `{cause.value}`" if isinstance(cause, Word) else names.get(cause, cause)


def _when(after):
    """The time that is over then."""
    for key, value in _TIMES.items():
        for times, said in ((1, ""), (2, "twice ")):
            if 0.0 <= after - times * value < 1.5 * _DT:
                return f" after {said}`{key}`"
    return f" for {after:.1f} s" if after else ""


def transitions():
    """{(from, to): what leads from one to the other}."""
    found = {}
    for mode in Mode:
        usual, causes = _way(mode), _causes(mode)
        ways = {cause: _way(mode, given) for cause, given in causes.items()}
        if usual.to is not None:
            found.setdefault((mode, usual.to), []).append(_when(usual.after).strip())
        chosen, names = _alike(mode, ways)
        for cause in chosen:
            way = ways[cause]
            if way.to is not None and way != usual:
                text = _named(cause, names) + _when(way.after)
                found.setdefault((mode, way.to), []).append(text)
        for a, b in itertools.combinations(chosen, 2):
            way = _way(mode, causes[a], causes[b])
            if way.to not in (None, usual.to, ways[a].to, ways[b].to):
                text = f"{_named(a, names)} and {_named(b, names)}{_when(way.after)}"
                found.setdefault((mode, way.to), []).append(text)
    return found


def table(found):
    """Markdown."""
    rows = ["| | from | to | when |", "|---|---|---|---|"]
    for number, ((source, target), texts) in enumerate(found.items(), 1):
        rows.append(f"| {number} | {source.name} | {target.name} | {'; '.join(texts)} |")
    return "\n".join(rows) + "\n"


_PLACES = {
    Mode.DISCONNECTED: (85, 60), Mode.PREFLIGHT: (255, 60), Mode.ARMED: (415, 60),
    Mode.TAKEOFF: (575, 60), Mode.HOVER: (735, 60), Mode.POLICY: (895, 60),
    Mode.GUARD: (666, 236), Mode.BLIND: (880, 230),
    Mode.OFF: (300, 400), Mode.LAND: (760, 400),
}  # fmt: skip
_HALF = (62, 19)
_UP = (Word.ARM, Word.TAKEOFF, Word.POLICY, Word.RESET)
_COLOURS = {"up": "#1565c0", "down": "#b0422c"}


def _edge(point, towards):
    """Where the line from a box's middle towards a point leaves the box."""
    dx, dy = towards[0] - point[0], towards[1] - point[1]
    share = min(half / abs(d) if d else math.inf for half, d in zip(_HALF, (dx, dy), strict=True))
    return point[0] + dx * share, point[1] + dy * share


def drawing(found):
    """SVG."""
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 450" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="980" height="450" fill="#fff"/>',
        *(
            f'<marker id="{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
            f'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
            for name, colour in _COLOURS.items()
        ),
    ]
    badges = []
    for number, ((source, target), texts) in enumerate(found.items(), 1):
        (x1, y1), (x2, y2) = _PLACES[source], _PLACES[target]
        back = (target, source) in found
        bend = 0.16 if back else 0.05
        middle = ((x1 + x2) / 2 - bend * (y2 - y1), (y1 + y2) / 2 + bend * (x2 - x1))
        start, end = _edge((x1, y1), middle), _edge((x2, y2), middle)
        up = all(any(_named(word, {}) in text for word in _UP) for text in texts)
        kind = "up" if up else "down"
        colour = _COLOURS[kind]
        out.append(
            f'<path d="M{start[0]:.0f} {start[1]:.0f}Q{middle[0]:.0f} {middle[1]:.0f} '
            f'{end[0]:.0f} {end[1]:.0f}" fill="none" stroke="{colour}" stroke-width="1.4" '
            f'marker-end="url(#{kind})"><title>{escape("; ".join(texts))}</title></path>'
        )
        x, y = ((a + 2 * m + b) / 4 for a, m, b in zip(start, middle, end, strict=True))
        badges.append(
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="9" fill="#fff" stroke="{colour}"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" font-size="10" '
            f'fill="{colour}">{number}</text>'
        )
    for mode, (x, y) in _PLACES.items():
        flies = mode in (Mode.POLICY, Mode.BLIND)
        out.append(
            f'<rect x="{x - _HALF[0]}" y="{y - _HALF[1]}" width="{2 * _HALF[0]}" '
            f'height="{2 * _HALF[1]}" rx="8" fill="{"#e3f0ff" if flies else "#f4f4f4"}" '
            f'stroke="#333"/><text x="{x}" y="{y + 5}" text-anchor="middle">{mode.name}</text>'
        )
    return "\n".join([*out, *badges, "</svg>"]) + "\n"


def page_with(text, rows):
    """The page with its table made anew."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + rows + END + rest.split(END)[1]


if __name__ == "__main__":
    made = transitions()
    DRAWING.write_text(drawing(made), encoding="utf-8")
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), table(made)), encoding="utf-8")

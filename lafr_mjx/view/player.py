"""The state of a replay: which flight, which moment, how fast. What keys do, without a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.view.replay import Replay
    from lafr_mjx.view.shown_flight import Flight, Moment

# Codes of GLFW, which the viewer passes on. All letters belong to MuJoCo's own switches.
SPACE, ENTER, BACKSPACE = 32, 257, 259
RIGHT, LEFT, DOWN, UP = 262, 263, 264, 265
SIX, SEVEN, EIGHT, NINE = 54, 55, 56, 57

SPEEDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
PAUSE_AT_END_S = 1.0

REPLAY_KEYS = (
    ("Space", "pause"),
    ("Left, Right", "iteration"),
    ("Down, Up", "slower, faster"),
    ("6, 7", "one tick back, on"),
    ("9", "corridor"),
    ("Backspace", "from the start"),
    ("Enter", "follow or free camera"),
)


class Player:
    """Steps through the flights of one replay, or of several side by side."""

    def __init__(
        self, replays: Sequence[Replay], speed: float = 1.0, *, follow: bool = False
    ) -> None:
        self.replays = tuple(replays)
        self.speed = speed
        self.follow = follow
        self.paused = False
        self.corridor = True
        self.index = 0
        self.time = 0.0

    @property
    def count(self) -> int:
        """How many iterations there are to step through."""
        return max(len(replay.flights) for replay in self.replays)

    @property
    def flights(self) -> tuple[Flight, ...]:
        """What flies now; a replay with fewer flights stays at its last."""
        return tuple(r.flights[min(self.index, len(r.flights) - 1)] for r in self.replays)

    @property
    def duration(self) -> float:
        """Of the longest flight that flies now [s]."""
        return max(flight.duration for flight in self.flights)

    def moments(self) -> list[Moment]:
        """Where everything is now."""
        return [flight.at(self.time) for flight in self.flights]

    def advance(self, seconds: float) -> None:
        """Let time pass; a flight's end and a pause are followed by the next flight."""
        if self.paused:
            return
        self.time += self.speed * seconds
        if self.time > self.duration + self.speed * PAUSE_AT_END_S:
            self.choose(self.index + 1)

    def choose(self, index: int) -> None:
        """Go to the start of an iteration."""
        self.index = index % self.count
        self.time = 0.0

    def seek(self, time: float) -> None:
        """Go to a moment of the flight."""
        self.time = min(max(time, 0.0), self.duration)

    def on_key(self, key: int) -> None:
        """Do what a key asks for; other keys do nothing."""
        if key == SPACE:
            self.paused = not self.paused
        elif key == RIGHT:
            self.choose(self.index + 1)
        elif key == LEFT:
            self.choose(self.index - 1)
        elif key == UP:
            self.speed = next((s for s in SPEEDS if s > self.speed * 1.001), self.speed)
        elif key == DOWN:
            slower = [s for s in SPEEDS if s < self.speed * 0.999]
            self.speed = slower[-1] if slower else self.speed
        elif key in (SIX, SEVEN):
            self.paused = True
            self.seek(self.time + (CONTROL_DT if key == SEVEN else -CONTROL_DT))
        elif key == NINE:
            self.corridor = not self.corridor
        elif key == BACKSPACE:
            self.time = 0.0
        elif key == ENTER:
            self.follow = not self.follow

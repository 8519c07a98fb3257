"""Modes of a flight, and the words of the operator's that lead from one to the other."""

from __future__ import annotations

from enum import Enum


class Mode(Enum):
    """Where the flight is."""

    DISCONNECTED = "disconnected"
    PREFLIGHT = "preflight"
    ARMED = "armed"
    TAKEOFF = "takeoff"
    HOVER = "hover"
    POLICY = "policy"
    BLIND = "blind"
    LAND = "land"
    GUARD = "guard"
    OFF = "off"


class Word(Enum):
    """What the operator says."""

    ARM = "arm"
    TAKEOFF = "takeoff"
    POLICY = "policy"
    HOVER = "hover"
    LAND = "land"
    OFF = "off"
    RESET = "reset"  # after OFF: begin again with the preflight checks


IN_AIR = frozenset({Mode.TAKEOFF, Mode.HOVER, Mode.POLICY, Mode.BLIND, Mode.LAND, Mode.GUARD})

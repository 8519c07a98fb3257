"""Drones: one file for each kind."""

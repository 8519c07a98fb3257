"""Recorded flights of any origin: read, checked, and brought onto one clock."""

"""Hardware in the loop: the wire to an Agilicious drone, the 50 Hz control process, safety.

What runs in the control process imports no JAX. The software drone (`drone/`) shares nothing
with the rest but the message definitions and the plant.
"""

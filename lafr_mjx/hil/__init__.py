"""Hardware in the loop: drones, the 50 Hz control process, safety, the software drone.

What runs in the control process imports no JAX. The software drone (`simulator/`) shares nothing
with the rest but the message definitions and the plant.
"""

"""Time of a flight: real or in lockstep, the pace of the control loop, priority."""

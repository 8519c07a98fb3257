"""The truth that is flown: the vehicle, its rate loop, its air, its battery and its sensors."""

"""Property tests have no deadline: how fast a machine is, is no property."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

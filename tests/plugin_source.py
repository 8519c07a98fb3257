"""The file of a user with a plugin of their own, as text."""

SOURCE = '''
from flax import struct
from lafr_mjx.plant.plugins import AirPlugin
from lafr_mjx.plant.vec3 import Vec3

@struct.dataclass
class Draught(AirPlugin):
    """Air that moves."""
    velocity_mps: Vec3 = struct.field(default_factory=Vec3.zero)
    share: float = 1.0

    def velocity(self, memory, point):
        return self.velocity_mps * self.share

class NoPlugin:
    pass
'''

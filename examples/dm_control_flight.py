"""Fly the figure-8 in wind through the `dm_env` interface, with a controller of your own.

python examples/dm_control_flight.py
python examples/dm_control_flight.py --viewer    # in dm_control's viewer; Space starts it
"""

import sys

import numpy as np

import lafr_mjx as lm

GRAVITY = np.array([0.0, 0.0, 9.81])


class TrackingController:
    """Position and velocity errors give a force, its direction the body rates."""

    def __init__(self, env: lm.envs.QuadrotorEnvironment) -> None:
        self.limits = env.setup.limits

    def __call__(self, timestep) -> np.ndarray:
        seen = timestep.observation
        rotation = seen["rotation"]
        force = (
            GRAVITY
            + 9.0 * (seen["reference_position"] - seen["position"])
            + 5.0 * (seen["reference_velocity"] - seen["velocity"])
        )
        up = rotation[:, 2]
        turn = rotation.T @ np.cross(up, force / np.linalg.norm(force))
        yaw = np.arctan2(rotation[1, 0], rotation[0, 0])
        rates = 9.0 * turn + np.array([0.0, 0.0, -2.0 * yaw])
        command = np.array([force @ up, *rates], np.float32)
        return lm.envs.action_of(command, self.limits)


def main() -> None:
    """Fly one episode and print how it went, or open the viewer."""
    env = lm.envs.QuadrotorEnvironment("figure8", "wind5", seed=0)
    controller = TrackingController(env)
    if "--viewer" in sys.argv:
        from dm_control import viewer

        viewer.launch(env, policy=controller)
        return
    timestep, rewards, errors = env.reset(), [], []
    while not timestep.last():
        timestep = env.step(controller(timestep))
        rewards.append(timestep.reward)
        errors.append(env.outcome.error)
    print(f"{len(rewards)} steps of {1e3 * env.control_timestep():.0f} ms, crashed: "
          f"{'yes' if timestep.discount == 0.0 else 'no'}")  # fmt: skip
    print(f"mean reward {np.mean(rewards):.2f}, largest error {max(errors):.2f} m")


if __name__ == "__main__":
    main()

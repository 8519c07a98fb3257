"""Search the gains of a controller on 64 different plants at once, with Gymnasium.

Each of the 64 environments has a plant of its own (mass, rotors, drag, delay, wind) and flies with
gains of its own. The best eight give the mean of the next generation (the cross-entropy method).

    pip install 'lafr-mjx[gym]'
    python examples/gym_search.py
"""

import gymnasium
import numpy as np

import lafr_mjx as lm

PLANTS, GENERATIONS, STEPS, KEPT = 64, 4, 200, 8


def controller(observation: np.ndarray, gains: np.ndarray, limits) -> np.ndarray:
    """Actions [N, 4] from observations [N, 61] and gains [N, 3] (see docs/environments.md)."""
    error, slip = 0.3 * observation[:, 0:3], 2.0 * observation[:, 3:6]
    rotation = observation[:, 9:18].reshape(-1, 3, 3)
    asked = 10.0 * observation[:, 21:24]  # acceleration of the reference
    force = asked + gains[:, :1] * error + gains[:, 1:2] * slip + np.array([0.0, 0.0, 9.81])
    up = rotation[:, :, 2]
    axis = np.cross(up, force / np.linalg.norm(force, axis=1, keepdims=True))
    rates = gains[:, 2:] * np.einsum("nij,ni->nj", rotation, axis)
    rates[:, 2] -= 2.0 * rotation[:, 1, 0]
    thrust = np.sum(force * up, axis=1, keepdims=True)
    return lm.envs.action_of(np.concatenate([thrust, rates], axis=1).astype(np.float32), limits)


def main() -> None:
    """Run some generations and print the gains."""
    env = gymnasium.make_vec(
        lm.envs.gym.ID, num_envs=PLANTS, vectorization_mode="vector_entry_point",
        scenario="randomised",
    )  # fmt: skip
    limits = env.unwrapped.setup.limits
    rng = np.random.default_rng(0)
    mean, spread = np.array([3.0, 2.0, 4.0]), np.array([3.0, 2.0, 3.0])
    for generation in range(GENERATIONS):
        gains = np.maximum(mean + spread * rng.standard_normal((PLANTS, 3)), 0.1)
        observation, _ = env.reset(seed=generation)
        total, crashes = np.zeros(PLANTS), 0
        for _ in range(STEPS):
            actions = controller(observation, gains, limits)
            observation, reward, crashed, _, _ = env.step(actions)
            total += reward
            crashes += int(crashed.sum())
        best = np.argsort(total)[-KEPT:]
        print(f"generation {generation}: mean reward {total.mean() / STEPS:.2f}, {crashes} crashes")
        mean, spread = gains[best].mean(axis=0), 0.5 * (gains[best].std(axis=0) + 0.3 * spread)
    print("gains:", ", ".join(f"{gain:.1f}" for gain in mean))
    env.close()


if __name__ == "__main__":
    main()

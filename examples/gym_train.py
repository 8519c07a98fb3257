"""Train a linear policy in 64 environments at once, with Gymnasium and the best of many guesses."""

import gymnasium
import numpy as np

import lafr_mjx as lm

env = gymnasium.make_vec(
    lm.envs.gym.ID, num_envs=64, vectorization_mode="vector_entry_point", scenario="nominal"
)
rng, mean, spread = np.random.default_rng(0), np.zeros((61, 4)), 0.1
for generation in range(30):
    guesses = mean + spread * rng.standard_normal((64, 61, 4))
    seen, _ = env.reset(seed=generation)
    total = np.zeros(64)
    for _ in range(150):  # three seconds
        actions = np.tanh(np.einsum("ni,nij->nj", seen, guesses)).astype(np.float32)
        seen, reward, *_ = env.step(actions)
        total += reward
    mean, spread = guesses[np.argsort(total)[-8:]].mean(axis=0), 0.97 * spread
    print(f"generation {generation}: mean reward {total.mean() / 150:.2f}")

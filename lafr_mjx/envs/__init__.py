"""The plant as an environment, for those who train policies of their own.

    import lafr_mjx as lm
    gymnasium.make_vec(lm.envs.gym.ID, num_envs=64, vectorization_mode="vector_entry_point")
    lm.envs.QuadrotorEnvironment("figure8", "wind5")

`gym` is for Gymnasium (extra `gym`), `QuadrotorEnvironment` for `dm_env`; both are thin shells over
the pure functions of `episode.py`. `action_of` and `command_of` translate between actions and
commands. All are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lafr_mjx.envs.dm import QuadrotorEnvironment
    from lafr_mjx.envs.episode import action_of, command_of

__all__ = ["QuadrotorEnvironment", "action_of", "command_of"]

_WHERE = {"QuadrotorEnvironment": "dm", "action_of": "episode", "command_of": "episode"}


def __getattr__(name: str) -> Any:
    if name == "gym":
        return importlib.import_module("lafr_mjx.envs.gym")
    if name not in _WHERE:
        raise AttributeError(f"module 'lafr_mjx.envs' has no attribute {name!r}")
    return getattr(importlib.import_module(f"lafr_mjx.envs.{_WHERE[name]}"), name)

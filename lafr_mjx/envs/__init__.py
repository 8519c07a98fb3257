"""The plant as an environment, for those who train policies of their own.

`dm.py` has the `dm_env` interface, `gym.py` Gymnasium's (extra `gym`); both are thin shells over
the pure functions of `episode.py`.
"""

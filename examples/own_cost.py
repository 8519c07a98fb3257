"""A cost of your own: what policies are trained for."""

from typing import Any, NamedTuple

import lafr_mjx as lm


class Near(NamedTuple):
    """Squared distance, and commands that change little."""

    position: Any = 30.0
    change: Any = 0.02

    def __call__(self, state, reference, command, previous):
        gap, jump = state.position - reference.position, command - previous
        return self.position * (gap**2).sum(-1) + self.change * (jump**2).sum(-1)


if __name__ == "__main__":
    run = lm.adapt("figure8", cost=Near(change=0.01), iterations=12, out="runs/near")
    print(run.table["rmse_m"])

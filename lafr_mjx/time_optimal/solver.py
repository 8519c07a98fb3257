"""IPOPT through CasADi: one call that gives an optimum or says why not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx.errors import InputError, RunError

if TYPE_CHECKING:
    from types import ModuleType

_SUCCESS = "Solve_Succeeded"
_MAX_ITERATIONS = 1500
_MAX_CPU_S = 300.0

_ADVICE = {
    "Infeasible_Problem_Detected": "no motion obeys all conditions near the start; widen --tube, "
    "or look whether the vehicle can fly this path at all",
    "Maximum_Iterations_Exceeded": "try other --nodes (twice or half as many)",
    "Maximum_CpuTime_Exceeded": "try fewer --nodes",
    "Restoration_Failed": "try other --nodes, or a wider --tube",
    "Solved_To_Acceptable_Level": "the optimum was not confirmed; try other --nodes",
}


class Optimum(NamedTuple):
    """A point that IPOPT confirmed as a local optimum."""

    point: np.ndarray  # [n] decision variables
    value: float  # of the objective
    status: str  # IPOPT's own word
    iterations: int
    wall_s: float


def casadi() -> ModuleType:
    """The CasADi module; it comes with the extra `bounds`."""
    try:
        import casadi as module
    except ImportError as error:
        raise InputError(
            "time-optimal bounds need CasADi, which is not installed: "
            "pip install 'lafr-mjx[bounds]' (`--only uniform` works without it)"
        ) from error
    return module


class Program:
    """A nonlinear program that grows block by block."""

    def __init__(self, what: str) -> None:
        self.what = what  # in messages, e.g. "rotor bound on the exact path, 100 nodes"
        self._variables: list[Any] = []
        self._start: list[np.ndarray] = []
        self._low: list[np.ndarray] = []
        self._high: list[np.ndarray] = []
        self._constraints: list[Any] = []
        self._constraint_low: list[np.ndarray] = []
        self._constraint_high: list[np.ndarray] = []

    def variable(self, start: np.ndarray, low: Any = -np.inf, high: Any = np.inf) -> Any:
        """A matrix of variables with start values of the same shape, within bounds."""
        ca = casadi()
        start = np.atleast_2d(np.asarray(start, dtype=float))
        block = ca.MX.sym(f"v{len(self._variables)}", *start.shape)
        self._variables.append(ca.vec(block))
        for values, store in ((start, self._start), (low, self._low), (high, self._high)):
            # CasADi stacks columns.
            store.append(np.broadcast_to(values, start.shape).ravel(order="F"))
        return block

    def require(self, expression: Any, low: Any = 0.0, high: Any = 0.0) -> None:
        """Each element of a matrix expression must lie within bounds."""
        shape = tuple(expression.shape)
        self._constraints.append(casadi().vec(expression))
        for values, store in ((low, self._constraint_low), (high, self._constraint_high)):
            store.append(np.broadcast_to(values, shape).ravel(order="F"))

    def values(self, optimum: Optimum, *blocks: Any) -> list[np.ndarray]:
        """What blocks (or expressions of them) are at the optimum."""
        ca = casadi()
        function = ca.Function("values", [ca.vertcat(*self._variables)], list(blocks))
        result = function.call([optimum.point])
        return [np.array(value) for value in result]

    def minimise(self, objective: Any, tolerance: float) -> Optimum:
        """Solve to a tolerance of the optimality conditions.

        Raises:
            RunError: with IPOPT's status and what to change, if there is no confirmed optimum.
        """
        ca = casadi()
        options = {
            "print_time": False,
            "error_on_fail": False,
            "ipopt": {
                "print_level": 0,
                "sb": "yes",  # no banner
                "max_iter": _MAX_ITERATIONS,
                "max_cpu_time": _MAX_CPU_S,
                "tol": tolerance,
                "acceptable_iter": 0,  # nothing less than an optimum
                "mu_strategy": "adaptive",
            },
        }
        program = {
            "x": ca.vertcat(*self._variables),
            "f": objective,
            "g": ca.vertcat(*self._constraints),
        }
        started = time.monotonic()
        solver = ca.nlpsol("bound", "ipopt", program, options)
        result = solver(
            x0=np.concatenate(self._start),
            lbx=np.concatenate(self._low),
            ubx=np.concatenate(self._high),
            lbg=np.concatenate(self._constraint_low),
            ubg=np.concatenate(self._constraint_high),
        )
        statistics = solver.stats()
        status, iterations = str(statistics["return_status"]), int(statistics["iter_count"])
        point = np.array(result["x"]).ravel()
        if status == "User_Requested_Stop":  # CasADi's way to pass on Ctrl-C
            raise KeyboardInterrupt
        if status != _SUCCESS or not np.all(np.isfinite(point)):
            advice = _ADVICE.get(status, "try other --nodes")
            raise RunError(
                f"{self.what}: IPOPT ended with '{status}' after {iterations} iterations; no "
                f"bound was found: {advice}"
            )
        return Optimum(point, float(result["f"]), status, iterations, time.monotonic() - started)

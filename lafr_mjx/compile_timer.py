"""How long JAX spent making programs, so that figures of work can leave it out."""

from __future__ import annotations

from typing import Any

import jax

_EVENTS = (
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)
"""Lowering and compiling. Tracing counts as work: nested functions would report it twice."""


class CompileTimer:
    """Sums up the time in JAX's compiler while the context is open."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._open = False

    def _listen(self, event: str, duration_secs: float, **_: Any) -> None:
        if self._open and event in _EVENTS:
            self.seconds += duration_secs

    def __enter__(self) -> CompileTimer:
        self._open = True
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False  # JAX has no public way to take a listener off

"""Things that are closed at the end of a `with` block."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class Closing:
    """Base of what has a `close` and is used as a context manager."""

    def close(self) -> None:
        """Give back what is held; closing twice does no harm."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

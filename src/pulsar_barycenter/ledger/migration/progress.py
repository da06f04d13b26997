"""How a migration shows its progress, and the drawing of numbers from a counter, which may be many."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import closing
from typing import Final, Protocol, TypeVar

REQUESTS_AT_ONCE: Final = 64

T = TypeVar("T")


class Progress(Protocol):
    """Yields `items`, and shows how many were taken; `what` names the task."""

    def __call__(self, items: Sequence[T], what: str, /) -> Generator[T, None, None]: ...


async def draw_up_to(last: int, draw: Callable[[], Awaitable[int]], progress: Progress, what: str) -> None:
    """Draw numbers of a counter by `draw` until it is at `last` or higher. At least one is drawn."""
    drawn = await draw()
    with closing(progress(range(drawn, last, REQUESTS_AT_ONCE), what)) as left:
        for _ in left:
            count = max(1, min(REQUESTS_AT_ONCE, last - drawn))
            drawn = max(await asyncio.gather(*(draw() for _ in range(count))))

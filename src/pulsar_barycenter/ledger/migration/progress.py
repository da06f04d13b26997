"""How a migration shows its progress, and the drawing of numbers from a counter, which may be many."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import closing
from typing import Final, Protocol, TypeVar

REQUESTS_AT_ONCE: Final = 64

T = TypeVar("T")


class Progress(Protocol):
    """A function that yields `items` one after the other and shows the operator how many of them were yielded. `what`
    is the name of the task that is shown.
    """

    def __call__(self, items: Sequence[T], what: str, /) -> Generator[T, None, None]: ...


async def draw_up_to(last: int, draw: Callable[[], Awaitable[int]], progress: Progress, what: str) -> None:
    """Draw numbers from a counter by calling `draw`, until a number is `last` or higher. At least one number is drawn.
    `progress` shows the progress, under the name `what`.
    """
    drawn = await draw()
    with closing(progress(range(drawn, last, REQUESTS_AT_ONCE), what)) as left:
        for _ in left:
            count = max(1, min(REQUESTS_AT_ONCE, last - drawn))
            drawn = max(await asyncio.gather(*(draw() for _ in range(count))))

"""The simulated connection between a client of a store in memory and its backend, on which messages are delayed or
lost.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pulsar_barycenter.metadata.store import Notification

Callback: TypeAlias = Callable[[], None]
NotificationRoute: TypeAlias = Callable[[Notification], float | None]
"""A function that returns how many seconds a notification takes to a client; None: the notification is lost, and the
client does not notice it.
"""


class Channel:
    """Runs callbacks on one event loop and in one contextvars context, in the order in which they were sent. Each runs
    after its delay, or later if callbacks before it wait longer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> None:
        self._loop = loop
        self._context = context
        self._waiting: deque[tuple[float, Callback]] = deque()
        self._is_armed = False

    def send(self, delay_s: float, callback: Callback) -> None:
        self._waiting.append((self._loop.time() + delay_s, callback))
        if not self._is_armed:
            self._arm()

    def send_apart(self, delay_s: float, callback: Callback) -> None:
        """Run `callback` after `delay_s` seconds. Other callbacks do not delay it, so it may run before callbacks that
        were sent earlier.
        """
        self._loop.call_later(delay_s, callback, context=self._context)

    def _arm(self) -> None:
        self._is_armed = True
        loop = self._loop
        due = self._waiting[0][0]
        if due <= loop.time():
            loop.call_soon(self._pump, context=self._context)
        else:
            loop.call_at(due, self._pump, context=self._context)

    def _pump(self) -> None:
        now = self._loop.time()
        try:
            while self._waiting and self._waiting[0][0] <= now:
                _, callback = self._waiting.popleft()
                callback()
        finally:
            self._is_armed = False
            if self._waiting:
                self._arm()


@dataclass(slots=True)
class Link:
    """The connection of one client of a memory store, as the backend has it. Some fields are faults that tests
    simulate.
    """

    requests: Channel
    answers: Channel
    notifications: Channel
    notify: Callable[[Notification], None]
    session: int | None = None
    cut: bool = False
    missed: bool = False
    """Whether a notification was lost during a partition. The next answer to a heartbeat reports it to the client, and
    the flag is reset."""
    route: NotificationRoute | None = None
    disorderly: bool = False
    """Whether notifications arrive twice and may overtake each other, as a test asks for."""
    answers_lost: bool = False
    """Whether the backend executes writes but does not answer them, as a test asks for."""

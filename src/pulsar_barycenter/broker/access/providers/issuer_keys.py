"""The keys of an issuer as a broker keeps them: when they are used, fetched anew, or not known.

| the broker has                       | a token                                                                    |
|--------------------------------------|----------------------------------------------------------------------------|
| no keys, or keys that have expired   | waits for them; is refused if the issuer just gave none                    |
| keys, but not the one that it names  | waits for new ones; is refused if they were asked for not long ago         |
| its key, among keys that are old     | is judged; new ones are fetched beside it                                  |
| its key                              | is judged                                                                  |

One question to an issuer at a time is on its way, whoever waits for it. While an issuer does not answer, its keys go on
until they expire. Times are monotonic seconds. Source: Pulsar's `JwksCache`, which forgets the keys that it has before
it asks for a new one.
"""

import asyncio
import enum
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.credentials.errors import CredentialsError
from pulsar_barycenter.credentials.openid import IssuerKeys

log = structlog.get_logger(__name__)

RETRY_S: Final = 5.0
"""How long an issuer that gave no keys is not asked again."""


class Step(enum.Enum):
    USE = enum.auto()
    REFRESH = enum.auto()
    WAIT = enum.auto()
    REFUSE = enum.auto()


@dataclass(frozen=True, slots=True)
class KeyTimes:
    """Ages at which keys are fetched anew, and are used no more; how often they are fetched for one that is missing."""

    refresh_s: float
    expiration_s: float
    missing_key_refresh_s: float


@dataclass(frozen=True, slots=True)
class KeptKeys:
    """The keys that were fetched last, when, when they were asked for last, and whether in vain."""

    keys: IssuerKeys | None = None
    fetched_s: float = -math.inf
    asked_s: float = -math.inf
    has_failed: bool = False
    is_asking: bool = False

    def at(self, now_s: float, times: KeyTimes) -> IssuerKeys | None:
        """Return the keys that may be used."""
        return self.keys if now_s - self.fetched_s < times.expiration_s else None


def next_step(kept: KeptKeys, key_id: str, now_s: float, times: KeyTimes) -> Step:
    """Return what is done for a token that names this key."""
    may_retry = not kept.has_failed or now_s - kept.asked_s >= RETRY_S
    usable = kept.at(now_s, times)
    if usable is None:
        return Step.WAIT if kept.is_asking or may_retry else Step.REFUSE
    if not usable.has(key_id):
        is_due = now_s - kept.asked_s >= times.missing_key_refresh_s and may_retry
        return Step.WAIT if kept.is_asking or is_due else Step.REFUSE
    is_old = now_s - kept.fetched_s >= times.refresh_s
    return Step.REFRESH if is_old and may_retry and not kept.is_asking else Step.USE


class KeysOfIssuer:
    """Keeps the keys of one issuer, which `fetch` gets; it may raise CredentialsError."""

    def __init__(
        self,
        issuer: str,
        fetch: Callable[[str], Awaitable[IssuerKeys]],
        times: KeyTimes,
        now_s: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._times = times
        self._now_s = now_s
        self._keys: IssuerKeys | None = None
        self._fetched_s = self._asked_s = -math.inf
        self._has_failed = False
        self._asking: asyncio.Task[None] | None = None

    async def for_key(self, key_id: str) -> IssuerKeys:
        """Return the keys to judge a token by that names this key, which may not be among them.

        Raises:
            AuthenticationError: the keys are not known.
        """
        step = next_step(self._kept(), key_id, self._now_s(), self._times)
        if step in (Step.WAIT, Step.REFRESH):
            self._ask()
        if step is Step.WAIT and self._asking is not None:
            await asyncio.wait({self._asking})
        keys = self._kept().at(self._now_s(), self._times)
        if keys is None:
            raise AuthenticationError(
                "the keys of the token's issuer could not be fetched, so that none can be checked"
            )
        return keys

    async def close(self) -> None:
        """Ask no more. Idempotent."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    def _kept(self) -> KeptKeys:
        is_asking = self._asking is not None and not self._asking.done()
        return KeptKeys(self._keys, self._fetched_s, self._asked_s, self._has_failed, is_asking)

    def _ask(self) -> None:
        if self._asking is None or self._asking.done():
            self._asked_s = self._now_s()
            self._asking = asyncio.create_task(self._renew(), name=f"keys of {self._issuer}")

    async def _renew(self) -> None:
        """Fetch the keys; those that are no more among them are used no more."""
        try:
            self._keys = await self._fetch(self._issuer)
        except CredentialsError as error:
            self._has_failed = True
            log.warning("issuer_keys_not_fetched", issuer=self._issuer, reason=str(error))
        except Exception:
            self._has_failed = True
            log.exception("issuer_keys_not_fetched", issuer=self._issuer)
        else:
            self._fetched_s = self._now_s()
            self._has_failed = False

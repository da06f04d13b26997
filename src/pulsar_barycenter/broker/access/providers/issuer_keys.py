"""Caches the keys of an issuer: decides when to use them, when to fetch new ones, and when to refuse a token.

| the cache has                            | a token                                                              |
|------------------------------------------|----------------------------------------------------------------------|
| no keys, or keys that have expired       | waits for keys; is refused if the last request to the issuer failed  |
| keys, but not the one the token names    | waits for new keys; is refused if they were requested recently       |
| the token's key, among keys that are old | is checked; new keys are fetched in parallel                         |
| the token's key                          | is checked                                                           |

At most one request to an issuer is running at a time; all tokens wait for the same request. While the issuer does not
answer, its keys are used until they expire. Times are monotonic seconds. Source: Pulsar's `JwksCache`. That one drops
its keys before it requests new ones.
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
"""The time after a failed request before the issuer is asked again, in seconds."""


class Step(enum.Enum):
    USE = enum.auto()
    REFRESH = enum.auto()
    WAIT = enum.auto()
    REFUSE = enum.auto()


@dataclass(frozen=True, slots=True)
class KeyTimes:
    """Times in seconds for the cached keys of an issuer.

    `refresh_s`: from this age of the keys on, the next token makes the broker fetch new keys. `expiration_s`: from this
    age on, the keys are not used any more. `missing_key_refresh_s`: if a token names a key that is not cached, new keys
    are fetched only if the last request to the issuer is at least this long ago.
    """

    refresh_s: float
    expiration_s: float
    missing_key_refresh_s: float


@dataclass(frozen=True, slots=True)
class KeptKeys:
    """The state of the cache for one issuer: the keys that were fetched last and when; when keys were last requested,
    whether this request is still running, and whether it failed.
    """

    keys: IssuerKeys | None = None
    fetched_s: float = -math.inf
    asked_s: float = -math.inf
    has_failed: bool = False
    is_asking: bool = False

    def at(self, now_s: float, times: KeyTimes) -> IssuerKeys | None:
        """Return the cached keys if they have not expired at `now_s`, else None."""
        return self.keys if now_s - self.fetched_s < times.expiration_s else None


def next_step(kept: KeptKeys, key_id: str, now_s: float, times: KeyTimes) -> Step:
    """Return the next step for a token that names the key `key_id`.

    USE: check the token with the cached keys. REFRESH: check it with the cached keys, and also fetch new keys. WAIT:
    fetch new keys and wait for them, because the key is missing or the keys have expired. REFUSE: refuse the token for
    the same reasons, when it is too early for another request to the issuer.
    """
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
    """The cached keys of one issuer. `fetch` is called with the issuer, requests its keys and returns them; it may
    raise CredentialsError. `now_s` is a monotonic clock.
    """

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
        """Return the issuer's keys for checking a token that names the key `key_id`. If that key is not cached, this
        fetches the keys first, unless the last request was too short a time ago. The result may lack the key; then the
        caller has to refuse the token.

        Raises:
            AuthenticationError: there are no keys that have not expired.
        """
        step = next_step(self._kept(), key_id, self._now_s(), self._times)
        if step in (Step.WAIT, Step.REFRESH):
            self._ask()
        if step is Step.WAIT and self._asking is not None:
            await asyncio.wait({self._asking})
        keys = self._kept().at(self._now_s(), self._times)
        if keys is None:
            raise AuthenticationError(
                "the token cannot be checked, because the keys of its issuer could not be fetched: try again later"
            )
        return keys

    async def close(self) -> None:
        """Cancel the request to the issuer, if one is running. Idempotent."""
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
        """Fetch the keys from the issuer, and replace all cached ones. After a failure the cached keys stay; the
        failure is logged, and delays the next attempt.
        """
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

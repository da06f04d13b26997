"""The right to act, and what this process has taken over from the cluster's own balancer.

The order is what makes it safe. First the lease, then the note of what is to be put back, on the disk and in the lease,
then the change. At the end the settings are restored, then the note is emptied, and last the lease is released. A
process that lost its lease changes nothing any more.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from pulsar_barycenter.admin.client_conf import ClientConf
from pulsar_barycenter.balancer.lease import Lease, LeaseError, LeaseLostError
from pulsar_barycenter.balancer.options import Wanted
from pulsar_barycenter.balancer.state_folder import StateFolder
from pulsar_barycenter.observer.collecting import binary_client
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from pulsar_barycenter.operations.own_balancing import Balancing, Remembered, TakenOver

_ATTEMPTS: Final = 12
"""How often the end of a process tries to write to the lease topic, with a pause of _PAUSE_S in between."""
_PAUSE_S: Final = 5.0
_MAX_HOSTS: Final = 16
"""The number of brokers whose addresses the client of the lease gets."""
_RENEWALS: Final = 3
"""How often the lease is renewed within its time."""


class BalanceError(Exception):
    """The balancer cannot go on; the text says why, and what to do."""


class RightToAct:
    """The lease of one process, and the settings of the cluster that this process has switched off.

    `lost` says that another process has taken the lease; "" if none has. `is_standby`: another process holds the lease,
    and this one waits for it. `is_ready`: `take_over` has succeeded; the caller sets it. `taken_over` has the settings
    to restore later, with the values from before; None if there are none.
    """

    def __init__(
        self,
        cluster: AdminCluster,
        conf: ClientConf,
        wanted: Wanted,
        state: StateFolder,
        tell: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._conf = conf
        self._wanted = wanted
        self._state = state
        self._tell = tell
        self._lease: Lease | None = None
        self._one_note = asyncio.Lock()
        self._is_holder = False
        """Whether the lease was taken, and its last note read: an earlier renewal would lose the note."""
        self.lost = ""
        self.taken_over: TakenOver | None = None
        self.is_standby = False
        self.is_ready = False

    @property
    def is_held(self) -> bool:
        """Whether the lease is proven to be held."""
        return self._lease is not None and self._lease.is_held

    @property
    def why_not(self) -> str:
        """Why this process may change nothing now; blank if it may."""
        if self.lost:
            return self.lost
        if not self.is_held:
            return "standby: another process holds the lease" if self.is_standby else "the lease is not proven"
        return "" if self.is_ready else "the cluster's own balancing is not taken over yet"

    async def take(self, service_url: Callable[[], str]) -> None:
        """Take the lease; if another process holds it, set `is_standby` instead. Do nothing if this process has taken
        it before. `service_url` returns the address of the binary protocol.

        Raises:
            LeaseError: the lease topic cannot be used.
            LeaseLostError: another process took the lease right after this one had taken it.
        """
        if self._lease is not None and not self.is_standby:
            return
        if self._lease is None:
            client = partial(binary_client, service_url(), self._conf)
            self._lease = Lease(client, self._wanted.lease_topic, holder=process_name(), valid_s=self._wanted.lease_s)
        is_held, note = await self._lease.try_to_take()
        if not is_held and not self.is_standby:
            self._tell("standby: another process holds the lease; trying again in each round")
        self.is_standby = not is_held
        if is_held:
            self._tell(f"this process holds the lease on {self._wanted.lease_topic}")
            # the last note is newer than a file that another process may have made obsolete
            self.taken_over = self._state.taken_over() if note is None else note.taken_over
            self._is_holder = True

    async def take_over(self, keys: Sequence[str]) -> None:
        """Switch the cluster's settings `keys` off, after storing their present values to restore them later. Then
        restore those settings that an earlier process had switched off and not restored, if they are not among `keys`.
        """
        known = () if self.taken_over is None else self.taken_over.before
        missing = [key for key in keys if key not in {found.key for found in known}]
        if missing:
            known += await Balancing(self._cluster, missing).remembered()
            await self._remember(known)
        if keys:
            await Balancing(self._cluster, keys).pause()
            taken = TakenOver(at=0, before=tuple(found for found in known if found.key in keys))
            self._tell(f"the cluster's own {_nouns(keys)} off; at the end it gets back what it had: {taken.sentence}")
        if others := tuple(found for found in known if found.key not in keys):
            await self._restore(others)
            await self._remember(tuple(found for found in known if found.key in keys))

    async def hand_back(self, *, stays: Collection[str]) -> bool:
        """Restore the settings that were switched off, except the keys in `stays`, which keep their present values.
        Return False, without a change, if there is nothing to restore or the lease is not proven.

        Raises:
            LeaseLostError: another process holds the lease.
            NotNowError, RefusedError, TimeoutError: a value cannot be put back.
        """
        if self.taken_over is None or not await self._prove():
            return False
        await self._restore([found for found in self.taken_over.before if found.key not in stays])
        await self._forget()
        return True

    async def give_back(self) -> None:
        """At the end of the run, restore the settings that were switched off, unless another process has taken the
        lease. Then release the lease. Do nothing if `take` was never called.

        Raises:
            BalanceError: the settings could not be restored. The lease is released nevertheless.
        """
        if self._lease is None:
            return
        try:
            if self.taken_over is not None and not self.lost:
                await self._prove_patiently()
                await self._restore(self.taken_over.before)
                await self._forget()
        except LeaseLostError as error:
            raise BalanceError(
                f"{error}; so this process does not change the settings of the cluster any further. The process that "
                "holds the lease restores them"
            ) from error
        except (NotNowError, RefusedError, TimeoutError) as error:
            assert self.taken_over is not None
            raise BalanceError(
                f"the settings of the cluster could not be restored ({self.taken_over.sentence}): "
                f"{str(error) or 'the cluster did not answer in time'}; start balance again with the same --state, or "
                "use `barycenter balance restore`"
            ) from error
        finally:
            await self._lease.close()

    async def renew(self) -> None:
        """Renew the lease again and again until cancelled. If another process has taken it, record that in `lost`, and
        return.
        """
        while True:
            await asyncio.sleep(self._wanted.lease_s / _RENEWALS)
            if not self._is_holder:
                continue
            try:
                await self._prove()
            except LeaseLostError as error:
                self.lost = str(error)
                return

    async def _restore(self, before: Sequence[Remembered]) -> None:
        kept = await Balancing(self._cluster).restore(before)
        for key, why in kept.items():
            self._tell(f"{key} stays as it is: {why}")
        if restored := [found.key for found in before if found.key not in kept]:
            self._tell(f"these settings have their former values again: {', '.join(restored)}")

    async def _remember(self, before: tuple[Remembered, ...]) -> None:
        """Record the values to restore later (`before`), in the state folder and in the lease topic, before the caller
        changes the settings. If `before` is empty, record that there is nothing to restore.

        Raises:
            LeaseError, LeaseLostError: the lease cannot be renewed.
        """
        self.taken_over = TakenOver(at=_now_ms(), before=before) if before else None
        self._state.remember(self.taken_over)
        if not await self._prove():
            raise LeaseError(
                "the lease could not be renewed, so this process changes no further settings; start balance again with "
                "the same --state"
            )

    async def _forget(self) -> None:
        self.taken_over = None
        await self._prove()
        self._state.remember(None)

    async def _prove(self) -> bool:
        """Renew the lease, with a message that contains `taken_over`, the settings to restore. Return whether it is
        proven that this process holds the lease.

        Raises:
            LeaseLostError: another process holds the lease.
        """
        assert self._lease is not None, "the lease comes first"
        async with self._one_note:  # a note must not overtake a newer one
            await self._lease.renew(self.taken_over)
        return self._lease.is_held

    async def _prove_patiently(self) -> None:
        """Renew the lease. If there is no proof, because its topic moves to another broker, try again, _ATTEMPTS times
        in all.

        Raises:
            LeaseLostError: another process holds the lease.
            NotNowError: no attempt succeeded.
        """
        for _ in range(_ATTEMPTS):
            if await self._prove():
                return
            await asyncio.sleep(_PAUSE_S)
        raise NotNowError("the lease cannot be renewed now")


def one_address(service_urls: Sequence[str | None]) -> str:
    """Return one service URL with the hosts of several brokers, so that it works if one of them has left the cluster;
    blank if no broker returns a service URL.

    Example: pulsar://a:6650 and pulsar://b:6650 become pulsar://a:6650,b:6650.
    """
    urls = [url for url in service_urls if url][:_MAX_HOSTS]
    scheme = urls[0].partition("://")[0] if urls else ""
    same = [url.partition("://")[2] for url in urls if url.startswith(f"{scheme}://")]
    return f"{scheme}://{','.join(same)}" if same else ""


def process_name() -> str:
    """Return a name for this process that no other process has."""
    return f"barycenter-balance-{socket.gethostname()}-{os.getpid()}"


def _nouns(keys: Sequence[str]) -> str:
    return "shedding and splitting are" if len(keys) > 1 else "shedding is"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

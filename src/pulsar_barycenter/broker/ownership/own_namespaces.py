"""Keeps a broker's own namespaces owned without look-ups: its heartbeat namespaces, and the bootstrap namespaces.

A heartbeat namespace is only useful on its broker: at its start, the broker waits until the lock of a former run of its
process is free, and it acquires the namespace again whenever it may have lost it. A bootstrap namespace is acquired
only if it has no owner. Source: Pulsar's `NamespaceService.registerBootstrapNamespaces`, which only does so at the
start: in Pulsar a heartbeat bundle whose session expired has no owner until it is looked up.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotAcquiredError, LookupFailedError
from pulsar_barycenter.broker.ownership.contract import Ownership
from pulsar_barycenter.broker.start_errors import OwnNamespaceError
from pulsar_barycenter.metadata.errors import LockBusyError, MetadataError, SessionLostError
from pulsar_barycenter.metadata.store import CONNECTED_EVENTS, MetadataStore, SessionEvent
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName

log = structlog.get_logger(__name__)

_START_PAUSE_S: Final = 0.2
_RETRY_PAUSE_S: Final = 1.0


class OwnNamespaces:
    def __init__(self, store: MetadataStore, ownership: Ownership, *, session_timeout_s: float) -> None:
        self._store = store
        self._ownership = ownership
        self._session_timeout_s = session_timeout_s
        self._heartbeat: list[Bundle] = []
        self._bootstrap: list[Bundle] = []
        self._due = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._stop_listening = store.add_session_listener(self._on_session_event)
        ownership.on_lost(self._on_lost)

    async def own(self, heartbeat: Iterable[NamespaceName], bootstrap: Iterable[str]) -> None:
        """Acquire these namespaces, each of which has one bundle, and from now on acquire them again when they are
        lost. If a bootstrap namespace cannot be acquired, this is logged, and no error is raised.

        Raises:
            OwnNamespaceError: the lock of a heartbeat namespace did not become free in time, or no session lasted long
                enough.
            LookupFailedError: this broker is stopped.
            MetadataError: the store did not answer.
        """
        for namespace in heartbeat:
            await self._own_at_start(namespace)
        for name in bootstrap:
            try:
                bundle = Bundle.full(NamespaceName.parse(name))
                self._bootstrap.append(bundle)
                await self._ownership.acquire(bundle, reason="bootstrap namespace")
            except (InvalidNameError, LookupFailedError, MetadataError) as error:
                log.warning("bootstrap_namespace_not_owned", namespace=name, reason=str(error))
        self._keeper = asyncio.create_task(self._keep(), name="own namespaces")

    async def close(self) -> None:
        """Acquire no more namespaces; owned namespaces stay owned. Idempotent."""
        self._stop_listening()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    async def _own_at_start(self, namespace: NamespaceName) -> None:
        """Acquire a heartbeat namespace of this broker. Try again, for a bit more than a session timeout, while a
        former run of the process still has it, or if the session ends. Then raise OwnNamespaceError.
        """
        bundle = Bundle.full(namespace)
        self._heartbeat.append(bundle)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._session_timeout_s * 1.2 + 2
        while True:
            try:
                await self._ownership.acquire(bundle, reason="own namespace")
            except (LockBusyError, BundleNotAcquiredError, SessionLostError) as error:
                if loop.time() >= deadline:
                    raise OwnNamespaceError(namespace, str(error)) from error
                await self._ownership.wait_change(bundle, _START_PAUSE_S)
            else:
                return

    def _on_session_event(self, event: SessionEvent) -> None:
        if event in CONNECTED_EVENTS:
            self._due.set()

    def _on_lost(self, bundle: Bundle) -> None:
        if bundle in self._heartbeat or bundle in self._bootstrap:
            self._due.set()

    async def _keep(self) -> None:
        """Each time this broker has connected to the store or has lost one of its own namespaces, acquire those of its
        own namespaces that have no owner. Try again until all have one. Never returns.
        """
        while True:
            await self._due.wait()
            self._due.clear()
            settled = [await self._take_again(bundle) for bundle in (*self._heartbeat, *self._bootstrap)]
            if not all(settled):
                self._due.set()
                await asyncio.sleep(_RETRY_PAUSE_S)

    async def _take_again(self, bundle: Bundle) -> bool:
        """Try to acquire `bundle` again. Return False if this has to be tried again: there was an error, or a former
        session of this broker still has a heartbeat namespace.
        """
        try:
            await self._ownership.acquire(bundle, reason="own namespace again")
        except LockBusyError:
            return bundle in self._bootstrap  # a heartbeat namespace is held by a former session of this broker
        except (BundleNotAcquiredError, MetadataError) as error:
            log.info("own_namespace_not_owned", bundle=str(bundle), reason=str(error))
            return False
        except LookupFailedError as error:
            log.warning("own_namespace_not_owned", bundle=str(bundle), reason=str(error))
        return True

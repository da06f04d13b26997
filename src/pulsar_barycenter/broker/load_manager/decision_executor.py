"""Carries out and logs decisions: sends unloads and splits to owners, and writes all decisions to the decision log.

All load managers use it. It decides nothing itself, except that it does not split a bundle that no longer exists.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.broker.cluster.service_urls import between_brokers
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext, Move
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog, DecisionRecord, Kind
from pulsar_barycenter.cluster_logs.request_ids import current_request_id, serving
from pulsar_barycenter.load.decisions import Placement, Split, Unload
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.splitting.request import can_divide
from pulsar_barycenter.metadata.coordination.epochs import Epoch
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError, UnknownBundleError
from pulsar_barycenter.naming.namespace import NamespaceName

if TYPE_CHECKING:
    from pulsar_barycenter.load.splitting.split_plan import SplitPlan

log = structlog.get_logger(__name__)


class SplitMetrics(Protocol):
    def split(self) -> None:
        """Count a split of a bundle."""
        ...


_MAX_REMEMBERED_REFUSALS: Final = 10_000
_REFUSALS_IN_ONE_STEP: Final = 100


class DecisionExecutor:
    """Carries out the decisions of one load manager: unloads and splits. A decision that fails is logged as refused,
    and no error is raised, so that the other decisions of a round are carried out.
    """

    def __init__(
        self,
        context: LoadManagerContext,
        decisions: DecisionLog,
        metrics: SplitMetrics,
        manager: ManagerKind,
        mover: Callable[[Move], Move] = lambda by_command: by_command,
    ) -> None:
        """`manager` is the kind of the load manager. `mover` is called once, with the function that unloads a bundle by
        a command to its owner, and returns the function that this object uses to unload bundles. By default that is the
        same function.
        """
        self._context = context
        self._move = mover(self._command_owner)
        self._decisions = decisions
        self._metrics = metrics
        self._manager = manager
        self._refused: Recent[tuple[str, str], Code] = Recent(_MAX_REMEMBERED_REFUSALS)
        self._last_round: tuple[Code, str] | None = None

    # ---- logging ----

    def log_placement(self, placement: Placement) -> None:
        """Log which broker was chosen for a bundle, or that no broker qualifies."""
        if placement.broker is None:
            self.refuse("assign", placement.bundle, "", placement.reason)
            return
        self._refused.pop(("assign", placement.bundle))
        self._count("assign", placement.reason)
        record = self._record("assign", placement.reason, bundle=placement.bundle, destination=placement.broker)
        log.info("bundle_assigned", bundle=placement.bundle, broker=placement.broker, reason=record.sentence)

    def refuse(self, action: str, bundle: str, source: str, reason: Reason) -> None:
        """Log that a decision is not carried out. Nothing is logged if the last refusal of this `action` for this
        `bundle` had the same reason code.
        """
        self._count("refuse", reason)
        if self._refused.get((action, bundle)) is reason.code:
            return
        self._refused.put((action, bundle), reason.code)
        record = self._record("refuse", reason, bundle=bundle, source=source, refused=action)
        log.info("decision_refused", action=action, bundle=bundle, broker=source, reason=record.sentence)

    def log_round(self, reason: Reason) -> None:
        """Log the outcome of a shedding round (one run of the leader's load shedding). Nothing is logged if the last
        round had the same reason code, from the same source of values (`reason.upon`).
        """
        self._count("shed", reason)
        if self._last_round != (reason.code, reason.upon):
            self._last_round = (reason.code, reason.upon)
            self._record("shed", reason)

    # ---- unloading ----

    async def unload(self, unload: Unload, destination: str | None) -> bool:
        """Make the owner unload a bundle. `destination` is the next owner; None: any broker. Return True after the
        unload, False after a failure, which is logged.
        """
        with self._request_id():
            return await self._unload(unload, destination)

    async def _unload(self, unload: Unload, destination: str | None) -> bool:
        bundle = _parsed(unload.bundle)
        try:
            if bundle is None or not await self._move(bundle, unload.source, destination):
                reason = Reason(code=Code.NO_OWNER, subject=unload.bundle, cause=unload.reason)
                self.refuse("unload", unload.bundle, unload.source, reason)
                return False
        except Exception as error:  # noqa: BLE001 (whatever error a peer or the store returns, the round continues)
            failure = Reason(code=Code.FAILED, subject=unload.bundle, detail=str(error), cause=unload.reason)
            self.refuse("unload", unload.bundle, unload.source, failure)
            return False
        self._refused.pop(("unload", unload.bundle))
        self._count("unload", unload.reason)
        record = self._record(
            "unload", unload.reason, bundle=unload.bundle, source=unload.source, destination=destination or ""
        )
        log.info(
            "bundle_shed",
            bundle=unload.bundle,
            source=unload.source,
            destination=destination,
            reason=record.sentence,
        )
        return True

    async def _command_owner(self, bundle: Bundle, source: str, destination: str | None) -> bool:
        epoch = self._context.leader_epoch().number
        url = await self._web_url_of(source)
        if url is not None:
            await self._context.env.peers.unload_bundle(url, bundle, destination=destination, epoch=epoch)
        return url is not None

    # ---- splitting ----

    async def counted_splits(self, plan: "Callable[[Mapping[str, int]], SplitPlan]") -> "SplitPlan":
        """Make a plan of splits with `plan` and return it. Log the splits that the plan refuses.

        `plan` gets the number of bundles of namespaces, by the namespace's name. It is first called without any number.
        Then the numbers of the namespaces in its result are read, and it is called again, until its result names no
        other namespace.
        """
        counts: dict[str, int] = {}
        read: set[str] = set()
        # A plan of the reported bundles says which namespaces to read. If some are full, others may follow.
        while unread := (found := plan(counts)).namespaces() - read:
            read |= unread
            for name in sorted(unread):
                with suppress(InvalidNameError):
                    counts[name] = len((await self._context.bundles.get(NamespaceName.parse(name))).bundles)
        refusals = islice(found.refusals(), _MAX_REMEMBERED_REFUSALS)
        while batch := list(islice(refusals, _REFUSALS_IN_ONE_STEP)):
            for refusal in batch:
                self.refuse("split", refusal.subject, "", refusal.reason)
            await asyncio.sleep(0)
        return found

    async def split(self, split: Split, *, unload: Callable[[], Awaitable[bool]], epoch: Epoch | None = None) -> bool:
        """Make the owner split a bundle; return True after the split, False after a failure, which is logged.

        With `loadBalancerAutoUnloadSplitBundlesEnabled`, `unload` is called before the split, and returns whether the
        owner also has to unload the new bundles; without it, the new bundles stay. `epoch` is the epoch of the leader
        that decided the split; None: the owner decided the split itself.
        """
        with self._request_id():
            return await self._do_split(split, unload, epoch)

    async def _do_split(self, split: Split, unload: Callable[[], Awaitable[bool]], epoch: Epoch | None) -> bool:
        bundle = _parsed(split.bundle)
        try:
            code = Code.BUNDLE_GONE if bundle is None else await self._split_refusal(bundle)
            url = None if code is not None else await self._web_url_of(split.broker)
            if bundle is None or url is None:
                reason = Reason(code=code or Code.NO_OWNER, subject=split.bundle, cause=split.reason)
                self.refuse("split", split.bundle, split.broker, reason)
                return False
            config = self._context.config.current
            algorithm = config.default_namespace_bundle_split_algorithm
            children_leave = config.load_balancer_auto_unload_split_bundles_enabled and await unload()
            number = None if epoch is None else epoch.number
            await self._context.env.peers.split_bundle(
                url, bundle, algorithm=algorithm, unload=children_leave, epoch=number
            )
        except Exception as error:  # noqa: BLE001 (whatever error a peer or the store returns, the round continues)
            failure = Reason(code=Code.FAILED, subject=split.bundle, detail=str(error), cause=split.reason)
            self.refuse("split", split.bundle, split.broker, failure)
            return False
        self._context.bundles.invalidate(bundle.namespace)
        self._metrics.split()
        self._count("split", split.reason)
        record = self._record("split", split.reason, bundle=split.bundle, source=split.broker)
        log.info("bundle_split_ordered", bundle=split.bundle, broker=split.broker, reason=record.sentence)
        return True

    async def _split_refusal(self, bundle: Bundle) -> Code | None:
        if not can_divide(bundle.range):
            return Code.RANGE_NOT_DIVISIBLE
        try:
            (await self._context.bundles.fresh(bundle.namespace)).validate(bundle.range)
        except UnknownBundleError:
            return Code.BUNDLE_GONE
        return None

    async def _web_url_of(self, broker: str) -> str | None:
        urls = await self._context.registration.urls_of(broker)
        by_tls = self._context.config.current.broker_client_tls_enabled
        return None if urls is None else between_brokers(urls.web_url, urls.web_url_tls, by_tls=by_tls)

    def _count(self, kind: Kind, reason: Reason) -> None:
        self._context.env.instruments.decided(kind, reason.code)

    def _record(self, kind: Kind, reason: Reason, **about: str) -> DecisionRecord:
        at_ms = self._context.env.clock.now_ms()
        named = {**about, "request_id": current_request_id()}
        return self._decisions.record(at_ms, kind, reason, manager=self._manager, epoch=0, **named)

    def _request_id(self) -> AbstractContextManager[None]:
        """Context manager: give the command that is sent inside the `with` statement a request id. All brokers that
        take part in the command write this id into their log lines.
        """
        return serving(current_request_id() or f"{self._context.incarnation}-{self._decisions.count_command()}")


def _parsed(bundle: str) -> Bundle | None:
    try:
        return Bundle.parse(bundle)
    except InvalidNameError:
        return None

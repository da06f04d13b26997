"""Shows what draining a broker would do: which bundles would leave, to which brokers, and the loads before and after.

GET /barycenter/v1/drain-preview?broker=<broker id>

The leader answers and changes nothing. To drain a broker, set the dynamic key DRAINED_KEY and unload its bundles.
"""

import asyncio
import random
from typing import Any, Final

import msgspec
from aiohttp import web

from pulsar_barycenter.broker.rest.decisions import require_leader, snapshot_document
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.requests import json_response
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.config.broker_conf import runtime_values
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.html_pages.reasons import short_reason
from pulsar_barycenter.load.managers import ManagerKind, StrategyError, manager_in_force
from pulsar_barycenter.load.policies import DRAINED_KEY, PolicyError, drained_text
from pulsar_barycenter.load.reasons import Reason, innermost, render
from pulsar_barycenter.load.snapshot.document import SnapshotDocument, owned_bundles
from pulsar_barycenter.naming.bundle import may_leave_its_broker

MOST_PLACED: Final = 1_000
"""The maximum number of bundles for which the preview shows a destination. The leader places the others when they
leave.
"""


class Leaving(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A bundle of the broker to drain. `sentence` is the short reason, with the compared values, why it would go to the
    destination of its group, or why no other broker can take it.
    """

    bundle: str
    sentence: str


class LeavingGroup(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The bundles that would go to the broker `destination` for one reason (`why`). With `destination` "" no broker can
    take them, and they have to stay.
    """

    destination: str
    why: str
    bundles: list[Leaving]


class DrainPreview(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The effect of draining one broker.

    `key` is the name of the configuration key that lists the drained brokers, and `stored` its present value. `value`
    is the value that adds this broker to the list, `without` the value that removes it from the list. The dashboard
    sends `stored` along with a change, so that the change fails if the key has another value by then.

    `count` is the number of the broker's bundles, without those that never leave their broker. `groups` have the
    destinations of the first MOST_PLACED of them by name. `sides` are the loads of all brokers before and after the
    bundles in `groups` leave.
    """

    broker: str
    key: str
    is_drained: bool
    value: str
    without: str
    stored: str
    count: int
    groups: list[LeavingGroup]
    sides: list[Any]


class DrainPreviews:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    async def preview(self, request: web.Request) -> web.Response:
        broker, services = request.rel_url.query.get("broker", ""), self._services
        await require_leader(request, services)
        if broker not in services.control.registration.brokers:
            raise RestError(404, f"Broker is not active: {broker[:100]}")
        drained = services.config.barycenter_drained_brokers
        others = tuple(name for name in drained if name != broker)
        with_it = (*others, broker)
        if not services.control.registration.brokers - {*with_it}:
            raise RestError(
                412, f"No broker could take the bundles of {broker}: every other broker is drained or not active"
            )
        config = services.control.config.changed(DRAINED_KEY, drained_text(with_it))
        document = await snapshot_document(services)
        try:
            count, groups, sides = await asyncio.to_thread(_leaving, document, config, manager_in_force(config), broker)
        except (PolicyError, StrategyError) as error:
            raise RestError(412, str(error)) from error
        return json_response(
            DrainPreview(
                broker=broker,
                key=DRAINED_KEY,
                is_drained=broker in drained,
                value=drained_text(with_it),
                without=drained_text(others),
                stored=runtime_values(services.config)[DRAINED_KEY],
                count=count,
                groups=groups,
                sides=sides,
            )
        )


def _leaving(
    document: SnapshotDocument, config: BrokerConfig, manager: ManagerKind, broker: str
) -> tuple[int, list[LeavingGroup], list[Any]]:
    """Return three things: the number of the broker's bundles, without those that never leave their broker; in groups,
    the destinations of the first MOST_PLACED of them by name; and the loads of all brokers before and after these
    leave.

    Destinations are chosen one after the other; each choice takes into account the load of the bundles for which a
    destination was already chosen.
    """
    from pulsar_barycenter.dashboard.loads_after import bundle_counts, sides_of  # brings numpy
    from pulsar_barycenter.load.rounds.round import selection_of

    names = sorted(name for owner, name, _ in owned_bundles(document) if owner == broker and may_leave_its_broker(name))
    snapshot = document.snapshot()
    placed = list(selection_of(config, manager).place(snapshot, names[:MOST_PLACED], random.Random(0)))
    groups: dict[tuple[str, str], list[Leaving]] = {}
    for placement in placed:
        destination = "" if placement.broker in (None, broker) else str(placement.broker)
        member = Leaving(bundle=placement.bundle, sentence=short_reason(render(placement.reason)))
        groups.setdefault((destination, render(Reason(code=innermost(placement.reason).code))), []).append(member)
    # first the bundles that stay, then the largest groups
    ordered = sorted(groups.items(), key=lambda item: (item[0][0] != "", -len(item[1]), item[0]))
    moves = [
        (leaving.bundle, broker, destination) for (destination, _), group in ordered if destination for leaving in group
    ]
    found = [LeavingGroup(destination=goal, why=why, bundles=group) for (goal, why), group in ordered]
    return len(names), found, sides_of(snapshot, config, moves, bundle_counts(document), every=True)

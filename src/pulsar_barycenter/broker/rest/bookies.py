"""Bookies: their racks and groups, and the groups on which the ledgers of a namespace are.

With `barycenterLedgerStorage=bookkeeper` racks and groups decide where ledgers are (`bookkeeper.machines.placement`).
With files there are no bookies: what is set is stored and shown, but has no effect on the ledgers of this cluster.
Source: Pulsar's `Bookies`, `NamespacesBase`. Differences: names are checked, and there are at most MOST_BOOKIES bookies
with a rack.
"""

from typing import Final

import msgspec
from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.bookie_racks import BookieRacks, Groups, info_of, placed, removed
from pulsar_barycenter.broker.namespaces.policies import BookieAffinityGroup
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import require_namespace, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, json_response, namespace_of, no_content
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.naming.namespace import MAX_ENTITY_NAME, validate_entity_name

MOST_BOOKIES: Final = 10_000
"""The maximum number of bookies with a rack. If it is reached, a rack for another bookie is refused."""
MOST_GROUPS: Final = 100
"""The maximum number of groups of bookies, primary and secondary together, in the policy of a namespace."""


class BookieInfo(msgspec.Struct, frozen=True):
    """The rack and the host name of a bookie, in the body of a request."""

    rack: str | None = None
    hostname: str | None = None


class BookieRequests:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources
        self._racks = BookieRacks(services.ledgers.store_of_racks(services.resources.store))

    async def names(self, request: web.Request) -> web.Response:
        return json_response({"bookies": [{"bookieId": bookie} for bookie in self._services.ledgers.bookies]})

    # ---- racks ----

    async def racks(self, request: web.Request) -> web.Response:
        return json_response(await self._racks.read())

    async def rack(self, request: web.Request) -> web.Response:
        bookie = _bookie_in(request)
        found = info_of(await self._racks.read(), bookie)
        if found is None:
            raise _no_rack(bookie)
        return json_response(found)

    async def set_rack(self, request: web.Request) -> web.Response:
        bookie, group = _bookie_in(request), request.rel_url.query.get("group", "")
        await require_writable_policies(self._services)
        info = await _info_in(request)
        if not group:
            raise RestError(412, "Bookie 'group' parameters is missing: ?group=<name>")
        validate_entity_name("Bookie group", group)

        def change(groups: Groups) -> Groups:
            if info_of(groups, bookie) is None and sum(map(len, groups.values())) >= MOST_BOOKIES:
                raise RestError(
                    412,
                    f"At most {MOST_BOOKIES} bookies can have a rack: delete the racks of bookies that no longer exist",
                )
            return placed(groups, group, bookie, info)

        await self._racks.update(change)
        return no_content()

    async def delete_rack(self, request: web.Request) -> web.Response:
        bookie = _bookie_in(request)
        await require_writable_policies(self._services)

        def change(groups: Groups) -> Groups:
            if info_of(groups, bookie) is None:
                raise _no_rack(bookie)
            return removed(groups, bookie)

        await self._racks.update(change)
        return no_content()

    # ---- groups of a namespace ----

    async def affinity(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        local = await self._resources.local_policies.get_fresh(str(namespace))
        group = None if local is None else local.bookie_affinity_group
        return no_content() if group is None else json_response(group)

    async def set_affinity(self, request: web.Request) -> web.Response:
        asked = await body_of(request, BookieAffinityGroup)
        await require_writable_policies(self._services)
        if asked is None or not asked.primary:
            raise RestError(
                412, 'A primary group is required: send a JSON object such as {"bookkeeperAffinityGroupPrimary":"g"}'
            )
        names = (*asked.primary, *asked.secondary)
        if len(names) > MOST_GROUPS:
            raise RestError(412, f"A namespace can name at most {MOST_GROUPS} groups of bookies, not {len(names)}")
        for name in names:
            validate_entity_name("Bookie group", name)
        return await self._change(request, asked)

    async def delete_affinity(self, request: web.Request) -> web.Response:
        await require_writable_policies(self._services)
        return await self._change(request, None)

    async def _change(self, request: web.Request, group: BookieAffinityGroup | None) -> web.Response:
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        await self._services.control.namespaces.bundles_of_now(namespace)  # creates the local policies
        await self._resources.local_policies.update(
            str(namespace), lambda found: replace(found, bookie_affinity_group=group)
        )
        return no_content()


def _bookie_in(request: web.Request) -> str:
    bookie = request.match_info["bookie"]
    if not bookie.strip() or len(bookie) > MAX_ENTITY_NAME:
        raise RestError(
            412, f"The id of a bookie has 1 to {MAX_ENTITY_NAME} characters, such as 10.0.0.1:3181, not {len(bookie)}"
        )
    return bookie


def _no_rack(bookie: str) -> RestError:
    return RestError(404, f"Bookie rack placement configuration not found: {bookie}")


async def _info_in(request: web.Request) -> dict[str, str]:
    """Return the rack and the host name in the body of a request, as a dict; without the host name if the body has
    none.

    Raises:
        RestError: 400, there is no rack; 412, the rack has a slash between other characters, or a text is too long.
    """
    asked = await body_of(request, BookieInfo)
    if asked is None or not (asked.rack or "").strip("/ "):
        raise RestError(400, 'rack name is invalid, it should not be null, empty or \'/\': send {"rack":"/rack1"}')
    info = {name: text for name, text in msgspec.structs.asdict(asked).items() if text is not None}
    for name, text in info.items():
        if len(text) > MAX_ENTITY_NAME:
            raise RestError(412, f"{name} has {len(text)} characters; at most {MAX_ENTITY_NAME} are allowed")
    if "/" in info["rack"].strip("/"):
        raise RestError(
            412,
            f"Bookie 'rack' parameter is invalid: {info['rack']} has a slash between other characters; "
            "regions are not supported, so name the rack alone, such as /rack1",
        )
    return info

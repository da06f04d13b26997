"""Answers requests about namespaces and their bundles: creates, lists, deletes, unloads and splits them.

Source: Pulsar's `Namespaces` and `NamespacesBase`.
"""

from collections import Counter
from typing import Final

import msgspec
from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.admin.routes.namespaces import TOPIC_MODES
from pulsar_barycenter.broker.cluster.http_peers import COMMANDED
from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.lookup.namespace_service import BrokerNotActiveError
from pulsar_barycenter.broker.namespaces.policies import BundlesData, Policies
from pulsar_barycenter.broker.namespaces.resources import most_partitions
from pulsar_barycenter.broker.rest.errors import RedirectError, RestError
from pulsar_barycenter.broker.rest.manual_decisions import ManualDecisions
from pulsar_barycenter.broker.rest.namespace_deletion import delete_namespace
from pulsar_barycenter.broker.rest.namespace_storage import require_storage_policies
from pulsar_barycenter.broker.rest.ownership import (
    current_bundle,
    go_on_if_local,
    leader_url_for,
    location,
    policies_of,
    require_bundle_here,
    require_namespace,
    require_writable_policies,
)
from pulsar_barycenter.broker.rest.partition_owners import repeatable
from pulsar_barycenter.broker.rest.requests import (
    body_of,
    flag,
    json_response,
    namespace_of,
    no_content,
    whole_number,
)
from pulsar_barycenter.broker.rest.resource_groups import require_resource_group
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.load.reports.simple_load_report import reported_stats
from pulsar_barycenter.metadata.coordination.epochs import MAX_EPOCH
from pulsar_barycenter.metadata.errors import AlreadyExistsError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import MAX_BUNDLES
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName, validate_entity_name
from pulsar_barycenter.naming.topic import TopicName, is_system_topic

LARGEST: Final = "LARGEST"
HOT: Final = "HOT"
_BY_POSITIONS: Final = "specified_positions_divide"


class Namespaces:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources
        self._control = services.control

    async def of_tenant(self, request: web.Request) -> web.Response:
        tenant = request.match_info["tenant"]
        if await self._resources.tenants.get(tenant) is None:
            raise RestError(404, f"Tenant does not exist: {tenant}")
        return json_response([str(namespace) for namespace in await self._resources.namespaces_of(tenant)])

    async def get(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        policies = await policies_of(self._services, namespace)
        bundles = await self._control.namespaces.bundles_of(namespace)
        return json_response(replace(policies, bundles=BundlesData.from_bundles(bundles)))

    async def topics(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        mode = request.rel_url.query.get("mode", "PERSISTENT").upper()
        if mode not in TOPIC_MODES:
            raise RestError(400, f"The parameter mode must be one of {', '.join(TOPIC_MODES)}, not {mode!r}")
        names = await self._resources.topics_of_namespace(namespace, mode)
        if not flag(request, "includeSystemTopic"):
            names = [name for name in names if not is_system_topic(TopicName.parse(name))]
        return json_response(names)

    async def bundles(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        return json_response(BundlesData.from_bundles(await self._control.namespaces.bundles_of_now(namespace)))

    # ---- create and delete ----

    async def create(self, request: web.Request) -> web.Response:
        tenant, name = request.match_info["tenant"], request.match_info["namespace"]
        await require_writable_policies(self._services)
        validate_entity_name("Tenant", tenant)
        validate_entity_name("Namespace", name)
        namespace = NamespaceName.of(tenant, name)
        policies = await self._new_policies(namespace, await body_of(request, Policies) or Policies())
        if await self._resources.namespaces.exists(str(namespace)):
            raise RestError(409, f"Namespace {namespace} already exists")
        limit = self._services.config.max_namespaces_per_tenant
        if limit and len(await self._resources.namespaces_of(tenant)) >= limit:
            raise RestError(412, f"Exceed the maximum number of namespaces in tenant {tenant}: the limit is {limit}")
        try:
            await self._resources.namespaces.create(str(namespace), policies)
        except AlreadyExistsError:
            raise RestError(409, f"Namespace {namespace} already exists") from None
        return no_content()

    async def _new_policies(self, namespace: NamespaceName, wanted: Policies) -> Policies:
        """Check the policies that a request wants for a new namespace, and that its tenant exists and may use its
        clusters. Return the policies to store, with the defaults for clusters and bundles.

        Raises:
            RestError: the policies are not valid, or the tenant or a cluster does not exist or is not allowed.
        """
        info = await self._resources.tenants.get(namespace.tenant)
        if info is None:
            raise RestError(404, f"Tenant does not exist: {namespace.tenant}. Create it first.")
        clusters = wanted.replication_clusters or (self._services.config.cluster_name,)
        known = set(await self._resources.clusters.names())
        for cluster in clusters:
            if cluster not in info.allowed_clusters:
                raise RestError(
                    403,
                    f"Cluster {cluster} is not in the list of allowed clusters of {namespace.tenant}: add the cluster "
                    "to allowedClusters of that tenant first",
                )
            if cluster not in known:
                raise RestError(403, f"Cluster {cluster} does not exist")
        default = self._services.config.default_number_of_namespace_bundles
        asked = wanted.bundles or BundlesData()
        if len(asked.boundaries or ()) > MAX_BUNDLES + 1:
            raise RestError(400, f"A namespace has at most {MAX_BUNDLES} bundles: request fewer bundles")
        self._require_partitions_by_use(wanted)
        require_storage_policies(wanted, self._services.config)
        await require_resource_group(self._resources, wanted.resource_group_name)
        bundles = BundlesData.from_bundles(asked.to_bundles(namespace, default_count=default))
        return replace(wanted, replication_clusters=clusters, bundles=bundles, deleted=False)

    def _require_partitions_by_use(self, wanted: Policies) -> None:
        by_use = wanted.auto_topic_creation_override
        count = None if by_use is None else by_use.default_num_partitions
        limit = most_partitions(self._services.config)
        if count is not None and not 0 < count <= limit:
            raise RestError(406, f"defaultNumPartitions should be more than 0 and at most {limit}, not {count}")

    async def delete(self, request: web.Request) -> web.Response:
        force = flag(request, "force")
        if force and not self._services.config.force_delete_namespace_allowed:
            raise RestError(
                405,
                "Broker doesn't allow forced deletion of namespaces: set forceDeleteNamespaceAllowed=true in "
                "broker.conf",
            )
        await require_writable_policies(self._services)
        await delete_namespace(self._services, namespace_of(request), force=force)
        return no_content()

    async def delete_bundle(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        force = flag(request, "force")
        await require_writable_policies(self._services)
        await require_namespace(self._services, namespace)
        bundle = await current_bundle(self._services, namespace, request.match_info["range"])
        answer = await self._control.lookup.lookup_bundle(bundle, read_only=True)
        if answer is None:
            return no_content()
        go_on_if_local(request, self._services, answer, f"ServiceUnit:{bundle}")
        await self._control.namespaces.delete_bundle(bundle, force=force)
        return no_content()

    # ---- unload ----

    async def unload(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        await require_writable_policies(self._services)  # the owners of the bundles check it, too
        decision = ManualDecisions(self._services, request)
        bundles = await self._control.namespaces.bundles_of_now(namespace)

        async def unload_one(bundle: Bundle) -> None:
            owner = await self._control.lookup.lookup_bundle(bundle, read_only=True)
            path = f"/admin/v2/namespaces/{bundle}/unload"
            await self._services.admin.call("PUT", self._services.web_url, path, headers={COMMANDED: "true"})
            if owner is not None:  # recorded here: for the owner, the caller is this broker
                decision.unloaded(str(bundle), owner.broker_id)

        await repeatable(unload_one, bundles.bundles, what="unloaded")
        return no_content()

    async def unload_bundle(self, request: web.Request) -> web.Response:
        """Answer the request to unload a bundle. The optional parameter `destinationBroker` is the next owner. There
        are two ways to carry out a request with a destination.

        If this cluster transfers bundles from owner to owner, the destination goes to the present owner, which
        transfers the bundle to it. Otherwise one broker stores the destination for the next assignment: the leader, or,
        with a decentralized load manager, the broker that got the request. That broker then redirects the client to the
        owner, with the destination in the parameter `sentTo`. The owner uses `sentTo` only for the record of the
        decision.
        """
        decision = ManualDecisions(self._services, request)
        namespace = namespace_of(request)
        destination = _broker_id(request.rel_url.query.get("destinationBroker", ""))
        epoch = whole_number(request, "leaderEpoch", 0, at_most=MAX_EPOCH) or None
        hands_over = self._control.way.hands_over
        if destination:
            self._require_active(destination)
            if not hands_over:
                await self._go_to_leader(request)
        await require_namespace(self._services, namespace)
        bundle = await current_bundle(self._services, namespace, request.match_info["range"])
        await require_writable_policies(self._services)
        if destination and not hands_over:
            if epoch is not None:
                await self._control.namespaces.admit(epoch)
            self._control.namespaces.set_destination(bundle, destination)
        answer = await self._control.lookup.lookup_bundle(bundle, read_only=True)
        if answer is not None:
            if hands_over and answer.broker_id == destination:
                raise RestError(412, f"Broker {destination} owns {bundle} already: name another destination")
            also = {"sentTo": destination} if destination and not hands_over else {}
            go_on_if_local(
                request, self._services, answer, f"ServiceUnit:{bundle}", keep_destination=hands_over, also=also
            )
            done = await self._control.namespaces.unload_bundle(
                bundle, destination=destination or None, leader_epoch=epoch
            )
            if done is not None:
                decision.unloaded(str(bundle), answer.broker_id, destination or self._sent_to(request))
        elif destination:
            decision.assigned(str(bundle), destination)
        return no_content()

    def _sent_to(self, request: web.Request) -> str:
        """Return the parameter `sentTo`, the destination of an unload (see `unload_bundle`). Return "" if the parameter
        is missing or is not a registered broker.
        """
        broker = _broker_id(request.rel_url.query.get("sentTo", ""))
        return broker if broker in self._control.registration.brokers else ""

    def _require_active(self, destination: str) -> None:
        active = self._control.registration.brokers
        if destination not in active:
            raise BrokerNotActiveError(destination, active)

    async def _go_to_leader(self, request: web.Request) -> None:
        """Check that this broker may store the destination of an unload: with a centralized load manager it must be the
        leader, with a decentralized one any broker may.

        Raises:
            RedirectError: another broker is the leader.
            RestError: 412, there is no leader, or the leader has no port for this scheme.
        """
        if not self._control.load_manager.is_centralized or self._control.leadership.is_leader():
            return
        leader = await self._control.leadership.current_leader()
        url = None if leader is None else await leader_url_for(request, self._services, leader)
        if url is None:
            raise RestError(412, "The current leader is empty. Try again when a leader is elected.")
        raise RedirectError(location(request, url, authoritative=False, keep_destination=True))

    # ---- split ----

    async def split_bundle(self, request: web.Request) -> web.Response:
        decision = ManualDecisions(self._services, request)
        namespace = namespace_of(request)
        unload = flag(request, "unload")
        epoch = whole_number(request, "leaderEpoch", 0, at_most=MAX_EPOCH) or None
        await require_writable_policies(self._services)
        await require_namespace(self._services, namespace)
        positions = await self._positions(request)
        algorithm = self._algorithm(request.rel_url.query.get("splitAlgorithmName", ""), positions)
        count = len(await self._control.namespaces.bundles_of_now(namespace))
        if count + max(1, len(positions or ())) > MAX_BUNDLES:
            raise RestError(
                412, f"Namespace {namespace} has {count_of(count, 'bundle')}; at most {MAX_BUNDLES} are allowed"
            )
        bundle = await self._bundle_to_split(namespace, request.match_info["range"])
        await require_bundle_here(request, self._services, bundle, path=f"/admin/v2/namespaces/{bundle}/split")
        children = await self._control.namespaces.split_bundle(
            bundle, algorithm=algorithm, positions=positions, unload=unload, leader_epoch=epoch
        )
        if children:
            decision.split(str(bundle), self._services.urls.broker_id)
        return no_content()

    async def _positions(self, request: web.Request) -> list[int] | None:
        try:
            return await body_of(request, list[int])
        except msgspec.MsgspecError as error:
            raise RestError(
                412, f"Split bundle failed due to invalid request: the body must be a list of hashes: {error}"
            ) from None

    def _algorithm(self, name: str, positions: list[int] | None) -> str:
        config = self._services.config
        chosen = name or config.default_namespace_bundle_split_algorithm
        supported = config.supported_namespace_bundle_split_algorithms
        if chosen not in supported:
            raise RestError(412, f"Unsupported split algorithm {chosen}: use one of {', '.join(supported)}")
        if chosen == _BY_POSITIONS and not positions:
            raise RestError(412, f"{_BY_POSITIONS} needs positions: send a list of hashes as the body")
        return chosen

    async def _bundle_to_split(self, namespace: NamespaceName, text: str) -> Bundle:
        if text not in (LARGEST, HOT):
            return await current_bundle(self._services, namespace, text)
        found = await (self._largest(namespace) if text == LARGEST else self._hottest(namespace))
        if found is None:
            raise RestError(404, f"Bundle range {text} not found: namespace {namespace} has no topics or no load data")
        return found

    async def _largest(self, namespace: NamespaceName) -> Bundle | None:
        """Return the bundle with the most persistent topics, None if the namespace has no topics. If several bundles
        have the same number, return the one whose hash range begins lowest.
        """
        bundles = await self._control.namespaces.bundles_of_now(namespace)
        counts = Counter(bundles.find(topic) for topic in await self._resources.persistent_topics(namespace))
        return max(sorted(counts), key=lambda bundle: counts[bundle], default=None)

    async def _hottest(self, namespace: NamespaceName) -> Bundle | None:
        """Return the bundle with the highest throughput (in + out) in the brokers' last reports; None if no report has
        a bundle of the namespace.
        """
        bundles = set((await self._control.namespaces.bundles_of_now(namespace)).bundles)
        throughput: dict[Bundle, float] = {}
        for broker in await self._resources.store.children(BROKERS_ROOT):
            record = await self._resources.store.get(f"{BROKERS_ROOT}/{broker}")
            if record is None:
                continue
            for name, stats in reported_stats(record.value).items():
                bundle = _bundle_or_none(name)
                if bundle in bundles and bundle is not None:
                    throughput[bundle] = stats.msg_throughput_in + stats.msg_throughput_out
        return max(sorted(throughput), key=lambda bundle: throughput[bundle], default=None)

    async def hash_positions(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        bundle = await current_bundle(self._services, namespace, request.match_info["range"])
        names = request.rel_url.query.getall("topics", [])
        topics = [TopicName.parse(name) for name in names] or await self._resources.persistent_topics(namespace)
        hashes = {str(topic): topic.hash32 for topic in topics if bundle.contains(topic)}
        return json_response({"namespace": str(namespace), "bundle": str(bundle.range), "topicHashPositions": hashes})


def _broker_id(text: str) -> str:
    """Return the broker id in `text`, which is either a broker id or the web URL of a broker."""
    return text.removeprefix("http://").removeprefix("https://").rstrip("/")


def _bundle_or_none(name: str) -> Bundle | None:
    try:
        return Bundle.parse(name)
    except InvalidNameError:
        return None

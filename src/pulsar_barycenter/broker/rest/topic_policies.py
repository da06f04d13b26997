"""Answers requests about the policies that are set for a single topic: shows, sets and removes them.

Only the owner of the namespace's topic `__change_events` answers, so that changes are made one after the other; other
brokers redirect to it. `policy_kinds` has what differs between the policies. Source: Pulsar's `PersistentTopicsBase`.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote_plus

from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.admin.routes.namespace_storage import QUOTA_TYPES, SIZE_QUOTA
from pulsar_barycenter.broker.errors import TopicNotFoundError
from pulsar_barycenter.broker.namespaces.own_policies import (
    NO_OWN_POLICIES,
    OwnPolicies,
    SubscriptionPolicies,
    overlaid,
)
from pulsar_barycenter.broker.namespaces.policies import BacklogQuota, DispatchRate, Policies
from pulsar_barycenter.broker.namespaces.storage_policies import applied_quotas, quota_exceeds_retention
from pulsar_barycenter.broker.namespaces.topic_rules import subscription_dispatch_rate_of
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.namespace_storage import complete, quota_of, require_quota
from pulsar_barycenter.broker.rest.ownership import policies_of, require_topic_here, require_writable_policies
from pulsar_barycenter.broker.rest.policy_kinds import POLICY_KINDS, PolicyKind, rate_fault
from pulsar_barycenter.broker.rest.requests import (
    body_of,
    choice,
    flag,
    json_response,
    no_content,
    raw_part,
    route_of,
    topic_of,
)
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.system_topics.errors import SystemTopicError
from pulsar_barycenter.broker.topic_policies.events import events_topic
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.topic import TopicName, check_local_name, is_system_topic

MOST_SUBSCRIPTION_RATES: Final = 1_000
"""The most subscriptions of a topic that have a rate of their own."""


class TopicPolicyRequests:
    """Answers the REST requests that read, set and remove a policy of a topic. The last segment of the path is the name
    of the policy.
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    async def show(self, request: web.Request) -> web.Response:
        kind, topic = _kind_in(request), await self._topic(request)
        own = await self._own(request, topic)
        if flag(request, "applied"):
            policies = overlaid(await policies_of(self._services, topic.namespace), own)
            return json_response(kind.applied(policies, own, self._services.config))
        value = kind.value(own)
        return no_content() if value is None else json_response(value)

    async def change(self, request: web.Request) -> web.Response:
        kind, topic = _kind_in(request), await self._topic(request)
        value = await kind.read(request)
        if (fault := kind.fault(value, self._services.config)) is not None:
            raise RestError(kind.status, fault)
        return await self._change(request, topic, lambda own: kind.put(own, value))

    async def remove(self, request: web.Request) -> web.Response:
        kind, topic = _kind_in(request), await self._topic(request)
        return await self._change(request, topic, lambda own: kind.put(own, None))

    async def delete_all(self, request: web.Request) -> web.Response:
        return await self._change(request, await self._topic(request), lambda _own: NO_OWN_POLICIES)

    # ---- backlog quotas, of which a topic has one of each type ----

    async def backlog_quotas(self, request: web.Request) -> web.Response:
        topic = await self._topic(request)
        own = await self._own(request, topic)
        quotas = own.back_log_quota_map or {}
        if flag(request, "applied"):
            policies = overlaid(await policies_of(self._services, topic.namespace), own)
            quotas = applied_quotas(policies, self._services.config)
        return json_response({kind: complete(quota) for kind, quota in quotas.items()})

    async def set_backlog_quota(self, request: web.Request) -> web.Response:
        topic = await self._topic(request)
        kind = choice(request, "backlogQuotaType", QUOTA_TYPES)
        quota = await quota_of(request)
        if quota is None:
            raise RestError(
                400, "The body is empty or null: send a limit and a policy. To remove the quota, send a DELETE request"
            )
        require_quota(kind, quota)
        return await self._put_quota(request, topic, kind, complete(quota))

    async def delete_backlog_quota(self, request: web.Request) -> web.Response:
        topic = await self._topic(request)
        return await self._put_quota(request, topic, choice(request, "backlogQuotaType", QUOTA_TYPES), None)

    async def _put_quota(
        self, request: web.Request, topic: TopicName, kind: str, quota: BacklogQuota | None
    ) -> web.Response:
        def changed(own: OwnPolicies) -> OwnPolicies:
            quotas = {other: kept for other, kept in (own.back_log_quota_map or {}).items() if other != kind}
            if quota is not None:
                quotas[kind] = quota
            return replace(own, back_log_quota_map=quotas or None)

        return await self._change(request, topic, changed)

    # ---- rates of single subscriptions ----

    async def subscription_rate(self, request: web.Request) -> web.Response:
        name, topic = _subscription_in(request), await self._topic(request)
        own = await self._own(request, topic)
        rate = _rate_of(own, name)
        if rate is None and flag(request, "applied"):
            policies = overlaid(await policies_of(self._services, topic.namespace), own)
            rate = subscription_dispatch_rate_of(policies, own, self._services.config)
        return no_content() if rate is None else json_response(rate)

    async def set_subscription_rate(self, request: web.Request) -> web.Response:
        name, topic = _subscription_in(request), await self._topic(request)
        rate = await body_of(request, DispatchRate)
        if rate is None:
            raise RestError(400, "The body is empty or null: send a rate. To remove the rate, send a DELETE request")
        if (fault := rate_fault(rate, self._services.config)) is not None:
            raise RestError(412, fault)
        return await self._put_rate(request, topic, name, rate)

    async def remove_subscription_rate(self, request: web.Request) -> web.Response:
        return await self._put_rate(request, await self._topic(request), _subscription_in(request), None)

    async def _put_rate(
        self, request: web.Request, topic: TopicName, name: str, rate: DispatchRate | None
    ) -> web.Response:
        def changed(own: OwnPolicies) -> OwnPolicies:
            kept = {other: found for other, found in (own.subscription_policies or {}).items() if other != name}
            if rate is not None and len(kept) >= MOST_SUBSCRIPTION_RATES:
                raise RestError(
                    412,
                    f"{topic} already has rates for {count_of(len(kept), 'subscription')}, and more are not allowed: "
                    "remove the rate of another subscription first",
                )
            if rate is not None:
                kept[name] = SubscriptionPolicies(rate)
            return replace(own, subscription_policies=kept or None)

        return await self._change(request, topic, changed)

    # ---- for all policies ----

    async def _topic(self, request: web.Request) -> TopicName:
        """Return the topic in the path, whose policies the request reads or changes.

        Raises:
            RestError: 405, topic policies are switched off, or the topic is a system topic; 412, the parameter
                `isGlobal` asks for policies that apply to all clusters; 404, the namespace does not exist.
            TopicNotFoundError: the topic does not exist.
        """
        topic, resources = topic_of(request), self._services.resources
        if not self._services.config.topic_level_policies_enabled:
            raise RestError(
                405,
                "Topic level policies is disabled, to enable the topic level policy and retry: set "
                "topicLevelPoliciesEnabled=true",
            )
        if flag(request, "isGlobal"):
            raise RestError(
                412,
                "Please do not use the global topic level policy: policies are not replicated to other clusters. "
                "Leave out isGlobal",
            )
        if is_system_topic(topic):
            raise RestError(405, f"{topic} is a system topic, and system topics have no topic policies")
        await policies_of(self._services, topic.namespace)
        if await resources.partitioned_metadata(topic) is None and not await resources.topic_exists(topic):
            raise TopicNotFoundError(topic)
        return topic

    async def _own(self, request: web.Request, topic: TopicName) -> OwnPolicies:
        if not await self._services.topic_policies.exist(topic.namespace):
            return NO_OWN_POLICIES
        await require_topic_here(request, self._services, events_topic(topic.namespace))
        await self._services.topic_policies.look(topic.namespace)
        await self._services.topic_policies.known(topic)
        return self._services.topic_policies.of(topic)

    async def _change(
        self, request: web.Request, topic: TopicName, modify: Callable[[OwnPolicies], OwnPolicies]
    ) -> web.Response:
        services, events = self._services, events_topic(topic.namespace)
        await require_writable_policies(services)
        await require_topic_here(request, services, events)
        await services.registry.get_or_create(events)
        policies = await policies_of(services, topic.namespace)

        def checked(own: OwnPolicies) -> OwnPolicies:
            changed = modify(own)
            self._require_quota_below_retention(policies, own, changed)
            return changed

        try:
            await services.topic_policies.change(topic, checked)
        except (SystemTopicError, TimeoutError) as error:
            raise RestError(503, f"The policies of {topic} could not be stored: {error}. Try again.") from error
        return no_content()

    def _require_quota_below_retention(self, policies: Policies, before: OwnPolicies, after: OwnPolicies) -> None:
        if not quota_exceeds_retention(overlaid(policies, after), self._services.config):
            return
        if before.retention_policies != after.retention_policies:
            raise RestError(
                412,
                "Retention Quota must exceed configured backlog quota for topic. Please increase retention quota and "
                "retry",
            )
        if (before.back_log_quota_map or {}).get(SIZE_QUOTA) != (after.back_log_quota_map or {}).get(SIZE_QUOTA):
            raise RestError(
                412,
                "Backlog Quota exceeds configured retention quota for topic. Please increase retention quota and retry",
            )


def _subscription_in(request: web.Request) -> str:
    """Return the subscription of a path `…/{topic}/{subscription}/dispatchRate`.

    Raises:
        InvalidNameError: the name is not valid.
    """
    name = unquote_plus(raw_part(request, 7))
    check_local_name("subscription", name)
    return name


def _rate_of(own: OwnPolicies, subscription: str) -> DispatchRate | None:
    found = (own.subscription_policies or {}).get(subscription)
    return None if found is None else found.dispatch_rate


def _kind_in(request: web.Request) -> PolicyKind:
    row = route_of(request)
    assert row is not None, "these handlers are only for the routes of policies"
    return POLICY_KINDS[row.path.rpartition("/")[2]]

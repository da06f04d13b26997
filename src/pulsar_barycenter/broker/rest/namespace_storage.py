"""Answers requests about policies of a namespace for stored messages: retention, expiry, backlog quotas.

`namespaces/storage_policies.py` reads these policies. Source: Pulsar's `Namespaces` and `NamespacesBase`.
"""

from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec
from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.admin.routes.namespace_storage import AGE_QUOTA, QUOTA_POLICIES, QUOTA_TYPES, SIZE_QUOTA
from pulsar_barycenter.broker.namespaces.policies import BacklogQuota, Policies, RetentionPolicies
from pulsar_barycenter.broker.namespaces.storage_policies import (
    LONGEST_TIME,
    quota_exceeds_retention,
    retention_fault,
    size_limit,
)
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import policies_of, require_writable_policies
from pulsar_barycenter.broker.rest.requests import body_of, choice, json_response, namespace_of, no_content
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.config.broker_config import BrokerConfig

_Whole: TypeAlias = int | Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,18}$")] | None
"""A whole number, with or without quotes: Pulsar accepts both."""


class _WrittenQuota(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A `BacklogQuota` as clients write it."""

    limit: _Whole = None
    limit_size: _Whole = None
    limit_time: _Whole = None
    policy: str | None = None


class NamespaceStorage:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._namespaces = services.resources.namespaces

    # ---- retention ----

    async def retention(self, request: web.Request) -> web.Response:
        retention = (await policies_of(self._services, namespace_of(request))).retention_policies
        return no_content() if retention is None else json_response(retention)

    async def set_retention(self, request: web.Request) -> web.Response:
        retention = await body_of(request, RetentionPolicies)
        if retention is None:
            raise RestError(
                400,
                "Send retentionTimeInMinutes and retentionSizeInMB as the body. To use the configured retention again, "
                "send a DELETE",
            )
        _require_retention(retention)

        def changed(found: Policies) -> Policies:
            policies = replace(found, retention_policies=retention)
            if quota_exceeds_retention(policies, self._services.config):
                raise RestError(412, "Retention Quota must exceed configured backlog quota for namespace.")
            return policies

        return await self._change(request, changed)

    async def delete_retention(self, request: web.Request) -> web.Response:
        return await self._change(request, lambda found: replace(found, retention_policies=None))

    # ---- expiry ----

    async def message_ttl(self, request: web.Request) -> web.Response:
        ttl_s = (await policies_of(self._services, namespace_of(request))).message_ttl_in_seconds
        return no_content() if ttl_s is None else json_response(ttl_s)

    async def set_message_ttl(self, request: web.Request) -> web.Response:
        ttl_s = await body_of(request, int)
        if ttl_s is None:
            raise RestError(400, "Send the TTL in seconds as the body. To use the configured TTL again, send a DELETE")
        _require_ttl(ttl_s)
        return await self._change(request, lambda found: replace(found, message_ttl_in_seconds=ttl_s))

    async def delete_message_ttl(self, request: web.Request) -> web.Response:
        return await self._change(request, lambda found: replace(found, message_ttl_in_seconds=None))

    # ---- backlog quotas ----

    async def backlog_quotas(self, request: web.Request) -> web.Response:
        quotas = (await policies_of(self._services, namespace_of(request))).backlog_quota_map
        return json_response({kind: complete(quota) for kind, quota in quotas.items()})

    async def set_backlog_quota(self, request: web.Request) -> web.Response:
        kind = choice(request, "backlogQuotaType", QUOTA_TYPES)
        quota = await quota_of(request)
        if quota is None:
            raise RestError(400, "Send a limit and a policy as the body. To remove the quota, send a DELETE")
        require_quota(kind, quota)

        def changed(found: Policies) -> Policies:
            policies = replace(found, backlog_quota_map={**found.backlog_quota_map, kind: complete(quota)})
            if kind == SIZE_QUOTA:
                _require_quota_below_retention(policies, self._services.config)
            return policies

        return await self._change(request, changed)

    async def delete_backlog_quota(self, request: web.Request) -> web.Response:
        kind = choice(request, "backlogQuotaType", QUOTA_TYPES)

        def changed(found: Policies) -> Policies:
            kept = {other: quota for other, quota in found.backlog_quota_map.items() if other != kind}
            policies = replace(found, backlog_quota_map=kept)
            if kind == SIZE_QUOTA:
                _require_quota_below_retention(policies, self._services.config)
            return policies

        return await self._change(request, changed)

    async def _change(self, request: web.Request, changed: Callable[[Policies], Policies]) -> web.Response:
        namespace = namespace_of(request)
        await require_writable_policies(self._services)
        await policies_of(self._services, namespace)
        await self._namespaces.update(str(namespace), changed)
        return no_content()


def require_storage_policies(policies: Policies, config: BrokerConfig) -> None:
    """Check those policies of a new namespace that limit how long or how much is stored: retention, TTL and backlog
    quotas.

    Raises:
        RestError: 400 or 412, a value is not valid; the status is the same as in the requests that set this policy
            alone.
    """
    if policies.retention_policies is not None:
        _require_retention(policies.retention_policies)
    if policies.message_ttl_in_seconds is not None:
        _require_ttl(policies.message_ttl_in_seconds)
    for kind, quota in policies.backlog_quota_map.items():
        if kind not in QUOTA_TYPES:
            raise RestError(
                400, f"A key of backlog_quota_map must be one of {', '.join(QUOTA_TYPES)}, not {kind[:100]!r}"
            )
        require_quota(kind, quota)
    _require_quota_below_retention(policies, config)


def _require_retention(retention: RetentionPolicies) -> None:
    if (fault := retention_fault(retention)) is not None:
        raise RestError(412, f"Invalid retention policy: {fault}")


def _require_ttl(ttl_s: int) -> None:
    if not 0 <= ttl_s <= LONGEST_TIME:
        raise RestError(412, f"Invalid value for message TTL, message TTL must >= 0 and <= {LONGEST_TIME}, not {ttl_s}")


async def quota_of(request: web.Request) -> BacklogQuota | None:
    """Return the backlog quota in the body of a request, None if the body is empty. Numbers in the body may be strings.

    Raises:
        msgspec.MsgspecError: the body is not a backlog quota.
        RestError: 400, a value is too large, or a field is not known.
    """
    written = await body_of(request, _WrittenQuota)
    return None if written is None else msgspec.convert(msgspec.to_builtins(written), BacklogQuota, strict=False)


def require_quota(kind: str, quota: BacklogQuota) -> None:
    """Check a backlog quota; `kind` is its type.

    Raises:
        RestError: 400 or 412; the reason says what is not valid.
    """
    if quota.policy not in QUOTA_POLICIES:
        raise RestError(400, f"policy must be one of {', '.join(QUOTA_POLICIES)}, not {str(quota.policy)[:100]!r}")
    if None not in (quota.limit, quota.limit_size) and quota.limit != quota.limit_size:
        raise RestError(400, f"limit is {quota.limit}, but limitSize is {quota.limit_size}: send limitSize only")
    size, seconds = size_limit(quota), quota.limit_time or 0
    if not -LONGEST_TIME <= seconds <= LONGEST_TIME:
        raise RestError(412, f"limitTime must be at most {LONGEST_TIME} seconds, not {seconds}")
    if kind == SIZE_QUOTA:
        if quota.limit is None and quota.limit_size is None:
            raise RestError(412, f"Quota type of '{SIZE_QUOTA}' needs a size limit: send limitSize in bytes")
    else:
        if quota.limit_time is None:
            raise RestError(412, f"Quota type of '{AGE_QUOTA}' needs a time limit: send limitTime in seconds")
        if size > 0:
            raise RestError(
                412, f"limitSize has no effect in a quota of type {AGE_QUOTA}: set a quota of type {SIZE_QUOTA}"
            )


def _require_quota_below_retention(policies: Policies, config: BrokerConfig) -> None:
    if quota_exceeds_retention(policies, config):
        raise RestError(
            412,
            "Backlog Quota exceeds configured retention quota for namespace. Please increase retention quota and retry",
        )


def complete(quota: BacklogQuota) -> BacklogQuota:
    """Return the backlog quota with all fields set, so that every version of Pulsar reads the same limits. `limit` and
    `limit_size` get the same value; a limit that is not given becomes -1, which means no limit.
    """
    size = size_limit(quota)
    time_s = -1 if quota.limit_time is None else quota.limit_time
    return BacklogQuota(limit=size, limit_size=size, limit_time=time_s, policy=quota.policy)

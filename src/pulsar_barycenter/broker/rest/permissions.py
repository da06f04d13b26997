"""Shows, grants and revokes permissions in a namespace, on a topic and on a subscription.

A grant on a partitioned topic is stored once and applies to its partitions. Pulsar reads it in the same way, but also
writes a grant for each partition. Grants can be changed while `authorizationEnabled` is false, as in Pulsar.
Source: Pulsar's `NamespacesBase` and `PersistentTopicsBase`.
"""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote_plus

from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.authorization.grants import (
    LONGEST_ROLE,
    MOST_GRANTS,
    SUBSCRIPTION_AUTH_MODES,
    NotGrantedError,
    TooManyGrantsError,
    grant,
    grant_on_subscription,
    grant_on_topic,
    permissions_at,
    read_grants,
    revoke,
    revoke_on_subscription,
    revoke_on_topic,
)
from pulsar_barycenter.broker.authorization.needs import AuthAction
from pulsar_barycenter.broker.namespaces.policies import Policies
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import require_writable_policies
from pulsar_barycenter.broker.rest.requests import (
    body_of,
    json_response,
    namespace_of,
    no_content,
    raw_part,
    text_of,
    topic_of,
)
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import check_local_name

_ACTIONS: Final = tuple(action.value for action in AuthAction)


class Permissions:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._namespaces = services.resources.namespaces

    # ---- namespaces ----

    async def of_namespace(self, request: web.Request) -> web.Response:
        policies = await self._policies(namespace_of(request))
        grants = read_grants(policies.auth_policies, None)
        return json_response({role: sorted(actions) for role, actions in sorted(grants.namespace.items())})

    async def grant(self, request: web.Request) -> web.Response:
        role, actions = request.match_info["role"], await _actions(request)
        return await self._change(namespace_of(request), lambda found: grant(found, role, actions))

    async def revoke(self, request: web.Request) -> web.Response:
        role = request.match_info["role"]
        return await self._change(namespace_of(request), lambda found: revoke(found, role))

    # ---- subscriptions ----

    async def of_subscriptions(self, request: web.Request) -> web.Response:
        policies = await self._policies(namespace_of(request))
        grants = read_grants(policies.auth_policies, None)
        return json_response({name: sorted(roles) for name, roles in sorted(grants.subscriptions.items())})

    async def grant_on_subscription(self, request: web.Request) -> web.Response:
        subscription, roles = _subscription(request), await _roles(request)
        return await self._change(
            namespace_of(request), lambda found: grant_on_subscription(found, subscription, roles)
        )

    async def revoke_on_subscription(self, request: web.Request) -> web.Response:
        subscription, role = _subscription(request, 7), request.match_info["role"]
        return await self._change(
            namespace_of(request), lambda found: revoke_on_subscription(found, subscription, role), missing=404
        )

    async def subscription_auth_mode(self, request: web.Request) -> web.Response:
        return json_response((await self._policies(namespace_of(request))).subscription_auth_mode or "None")

    async def set_subscription_auth_mode(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        mode = await text_of(request)
        if mode not in SUBSCRIPTION_AUTH_MODES:
            raise RestError(400, f"The body must be one of {', '.join(SUBSCRIPTION_AUTH_MODES)}, not {mode!r}")
        await require_writable_policies(self._services)
        await self._policies(namespace)
        await self._namespaces.update(str(namespace), lambda found: replace(found, subscription_auth_mode=mode))
        await self._namespaces.get_fresh(str(namespace))
        return no_content()

    # ---- topics ----

    async def of_topic(self, request: web.Request) -> web.Response:
        topic = topic_of(request)
        policies = await self._policies(topic.namespace)
        return json_response(permissions_at(read_grants(policies.auth_policies, None), topic))

    async def grant_on_topic(self, request: web.Request) -> web.Response:
        topic, role, actions = topic_of(request), request.match_info["role"], await _actions(request)
        return await self._change(topic.namespace, lambda found: grant_on_topic(found, topic, role, actions))

    async def revoke_on_topic(self, request: web.Request) -> web.Response:
        topic, role = topic_of(request), request.match_info["role"]
        return await self._change(topic.namespace, lambda found: revoke_on_topic(found, topic, role), missing=412)

    async def _change(
        self, namespace: NamespaceName, change: Callable[[Any], dict[str, Any]], *, missing: int = 404
    ) -> web.Response:
        """Store new permissions of the namespace: the result of `change`, which is called with the stored ones. Return
        the answer 204. `missing` is the HTTP status of the error if `change` finds no permission to revoke.

        Raises:
            RestError: `missing`, as above; 412, there would be too many permissions; 404, the namespace does not exist.
        """
        await require_writable_policies(self._services)
        await self._policies(namespace)
        try:
            await self._namespaces.update(
                str(namespace), lambda found: replace(found, auth_policies=change(found.auth_policies))
            )
        except NotGrantedError as error:
            raise RestError(missing, str(error)) from error
        except TooManyGrantsError as error:
            raise RestError(412, str(error)) from error
        await self._namespaces.get_fresh(str(namespace))  # so that the answered change counts here at once
        return no_content()

    async def _policies(self, namespace: NamespaceName) -> Policies:
        policies = await self._namespaces.get_fresh(str(namespace))
        if policies is None:
            raise RestError(404, f"Namespace {namespace} does not exist")
        return policies


async def _actions(request: web.Request) -> list[str]:
    actions = await body_of(request, list[str])
    if actions is None:
        raise RestError(
            400, f"The body is empty or null: send a list of actions; the actions are {', '.join(_ACTIONS)}"
        )
    unknown = sorted({action for action in actions if action not in _ACTIONS})
    if unknown:
        raise RestError(400, f"Unknown actions {', '.join(unknown)}: send only {', '.join(_ACTIONS)}")
    return actions


async def _roles(request: web.Request) -> list[str]:
    roles = await body_of(request, list[str])
    if roles is None:
        raise RestError(400, "The body is empty or null: send a list of roles")
    if not all(0 < len(role) <= LONGEST_ROLE for role in roles) or len(roles) > MOST_GRANTS:
        raise RestError(
            412,
            f"Each role in the body must have 1 to {LONGEST_ROLE} characters, and the list at most {MOST_GRANTS} roles",
        )
    return roles


def _subscription(request: web.Request, at: int = 8) -> str:
    """Return the subscription in segment `at` of the path (the first segment has index 1), decoded.

    Raises:
        InvalidNameError: the name is not valid.
    """
    name = unquote_plus(raw_part(request, at))
    check_local_name("subscription", name)
    return name

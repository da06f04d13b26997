"""Decides whether this broker answers a request or redirects it, by the owner of the bundle or topic.

| the bundle is                        | answer                                                       |
|--------------------------------------|--------------------------------------------------------------|
| owned here                           | the handler's                                                |
| owned by another broker              | 307 to the owner, `authoritative` = whether this broker is the leader |
| unowned, `read_only`                 | success without effect, or 412, as the handler decides       |
| unowned, the leader assigns it       | 307 to the leader, `authoritative=false`                     |
| unowned, assigned here               | 307 to the new owner, `authoritative=true`, or acquired here |

Source: Pulsar's `PulsarWebResource.validateNamespaceBundleOwnership` and `validateTopicOwnership`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from pulsar_barycenter.broker.cluster.leadership import LeaderValue
from pulsar_barycenter.broker.cluster.lookup_answers import LookupAnswer, Owner
from pulsar_barycenter.broker.namespaces.policies import Policies
from pulsar_barycenter.broker.rest.errors import RedirectError, RestError
from pulsar_barycenter.broker.rest.requests import flag
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.naming.bundle import Bundle, BundleRange
from pulsar_barycenter.naming.namespace import NamespaceName, is_broker_bound, is_system_namespace
from pulsar_barycenter.naming.topic import TopicName

_DROPPED = ("authoritative", "destinationBroker")


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def location(
    request: web.Request,
    web_url: str,
    *,
    authoritative: bool,
    keep_destination: bool = False,
    path: str | None = None,
    also: Mapping[str, str] = _NOTHING,
) -> str:
    """Return the URL to which the client is redirected: the path and query of its request, at the broker `web_url`.

    The query gets the given `authoritative` instead of its former value, and the parameters in `also`.
    `destinationBroker` is removed from the query unless `keep_destination` is set. `path`, if given, replaces the path.
    """
    dropped = _DROPPED[:1] if keep_destination else _DROPPED
    pairs = [pair for pair in request.rel_url.raw_query_string.split("&") if pair and pair.split("=")[0] not in dropped]
    pairs += [urlencode({name: value}) for name, value in also.items()]
    pairs.append(f"authoritative={'true' if authoritative else 'false'}")
    return f"{web_url}{path or request.rel_url.raw_path}?{'&'.join(pairs)}"


def web_url_for(request: web.Request, plain: str | None, tls: str | None) -> str | None:
    """Return the URL to which to redirect a request: `tls` for a request over TLS, otherwise `plain`, or `tls` if there
    is no plain port. None if there is no such URL: a client that uses TLS is never redirected to a plain port.
    """
    return tls if request.secure else plain or tls


async def leader_url_for(request: web.Request, services: BrokerServices, leader: LeaderValue) -> str | None:
    """Return the leader's URL for the scheme of the request, None if the leader has no port for this scheme."""
    if not request.secure:
        return leader.service_url or None
    urls = await services.control.registration.urls_of(leader.broker_id)
    return None if urls is None else urls.web_url_tls


async def require_namespace(services: BrokerServices, namespace: NamespaceName) -> None:
    """Check that a namespace exists. System namespaces and a broker's own namespaces (heartbeat, SLA monitor) exist
    without a record.

    Raises:
        RestError: 404, the namespace does not exist.
    """
    if is_broker_bound(namespace) or is_system_namespace(namespace):
        return
    if await services.resources.namespaces.get(str(namespace)) is None:
        raise RestError(404, f"Namespace {namespace} does not exist")


async def policies_of(services: BrokerServices, namespace: NamespaceName) -> Policies:
    """Return the policies of a namespace.

    Raises:
        RestError: 404, the namespace does not exist.
    """
    policies = await services.resources.namespaces.get(str(namespace))
    if policies is None:
        raise RestError(404, f"Namespace {namespace} does not exist")
    return policies


def require_dispensable(why_it_stays: str | None) -> None:
    """Check that an object may be deleted: `why_it_stays` is None, or the reason why brokers need it
    (`namespaces/indispensable.py`).

    Raises:
        RestError: 412, the object must not be deleted; the error has that reason.
    """
    if why_it_stays is not None:
        raise RestError(412, why_it_stays)


async def require_writable_policies(services: BrokerServices) -> None:
    """Check that policies may be changed.

    Raises:
        RestError: 403, policies are read-only.
    """
    if await services.resources.policies_are_read_only():
        raise RestError(403, "Policies are read-only: remove /admin/flags/policies-readonly to allow changes")


async def current_bundle(services: BrokerServices, namespace: NamespaceName, range_text: str) -> Bundle:
    """Return the bundle with exactly this range, as it is in the store.

    Raises:
        InvalidNameError, UnknownBundleError: the text is not a range, or no bundle has it; both are 412.
    """
    bundle_range = BundleRange.parse(range_text)
    return (await services.control.namespaces.bundles_of_now(namespace)).validate(bundle_range)


async def require_bundle_here(
    request: web.Request, services: BrokerServices, bundle: Bundle, *, path: str | None = None
) -> None:
    """Check that this broker owns the bundle; if it has no owner, it is assigned first.

    Raises:
        RedirectError: another broker has to answer, at `path` if it is given, else at the request's path.
        RestError: 412, no broker can own the bundle.
    """
    answer = await services.control.lookup.lookup_bundle(bundle, authoritative=flag(request, "authoritative"))
    go_on_if_local(request, services, answer, f"ServiceUnit:{bundle}", path=path)


async def require_topic_here(request: web.Request, services: BrokerServices, topic: TopicName) -> None:
    """Check that this broker owns the topic's bundle; if the bundle has no owner, it is assigned first.

    Raises:
        RedirectError: another broker has to answer.
        RestError: 412, no broker can own the topic.
    """
    lookup = services.control.lookup
    if services.control.way.leaders_term.has(topic):
        leader = lookup.lookup_cached(topic) or await lookup.lookup(topic)
        go_on_if_local(request, services, leader, f"topic:{topic}")
        return
    answer = lookup.known_owner(topic)
    if answer is None or not answer.is_local:
        bundle = await lookup.bundle_of(topic)
        found = await lookup.lookup_bundle(bundle, authoritative=flag(request, "authoritative"))
        go_on_if_local(request, services, found, f"topic:{topic}")


def go_on_if_local(
    request: web.Request,
    services: BrokerServices,
    answer: LookupAnswer | None,
    what: str,
    *,
    path: str | None = None,
    keep_destination: bool = False,
    also: Mapping[str, str] = _NOTHING,
) -> None:
    """Return if a look-up found that this broker is the owner; otherwise redirect the client to the broker that has to
    answer. `answer` is the result of the look-up. `what` names the topic or bundle in errors. The other arguments are
    those of `location`.

    Raises:
        RedirectError: another broker has to answer.
        RestError: 412, no broker can own the topic or bundle, or the broker that has to answer has no port for this
            scheme.
    """
    if answer is None:
        raise RestError(412, f"Failed to find ownership for {what}")
    if isinstance(answer, Owner) and answer.is_local:
        return
    url = web_url_for(request, answer.web_url, answer.web_url_tls)
    if url is None:
        raise RestError(
            412,
            f"Broker {answer.broker_id} has to answer this request, but it has no {request.scheme.upper()} port: send "
            "the request with the other scheme, http or https",
        )
    is_leader = services.control.leadership.is_leader()
    authoritative = is_leader if isinstance(answer, Owner) else answer.authoritative
    raise RedirectError(
        location(request, url, authoritative=authoritative, keep_destination=keep_destination, path=path, also=also)
    )


def topic_path(topic: TopicName) -> str:
    """Return the admin path of a topic."""
    return f"/admin/v2/{topic.domain}/{topic.namespace}/{topic.encoded_local_name}"

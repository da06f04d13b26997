"""Reads requests and makes answers: names from paths, flags from queries, values from bodies."""

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar
from urllib.parse import unquote_plus

import msgspec
from aiohttp import web

from pulsar_barycenter.admin.routes.route import Route
from pulsar_barycenter.admin.routes.table import BY_PATH
from pulsar_barycenter.broker.rest.body_fields import require_known_fields
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName, check_local_name, decode_local_name

T = TypeVar("T")

MAX_TEXT: Final = 8_192
"""The maximum number of characters of a text in a body."""
MAX_ENTRIES: Final = 20_000
"""The maximum number of entries of a list or an object in a body."""
MAX_DEPTH: Final = 32
"""The maximum number of nested lists and objects in a body."""
_LARGEST: Final = 2**63 - 1
_WHOLE: Final = re.compile("[0-9]{1,18}", re.ASCII)


def json_response(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value), content_type="application/json")


def text_response(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/plain")


def no_content() -> web.Response:
    return web.Response(status=204)


def flag(request: web.Request, name: str, default: bool = False) -> bool:
    """Return a query parameter that is true or false; the default if it is blank or missing.

    Raises:
        RestError: 400, the value is neither true nor false.
    """
    text = request.rel_url.query.get(name, "").lower()
    if not text:
        return default
    if text not in ("true", "false"):
        raise RestError(400, f"The parameter {name} must be true or false, not {text!r}")
    return text == "true"


def whole_number(request: web.Request, name: str, default: int, *, at_most: int) -> int:
    """Return a number in the query, from 0 to `at_most` (inclusive); `default` if it is missing or blank.

    Raises:
        RestError: 400, the value is not such a number.
    """
    text = request.rel_url.query.get(name, "")
    if not text:
        return default
    if _WHOLE.fullmatch(text) is None or int(text) > at_most:
        raise RestError(400, f"The parameter {name} must be a whole number from 0 to {at_most}, not {text[:100]!r}")
    return int(text)


def choice(request: web.Request, name: str, choices: Sequence[str]) -> str:
    """Return a query parameter that must be one of `choices`; the first of them if it is missing or blank.

    Raises:
        RestError: 400, the value is none of them.
    """
    text = request.rel_url.query.get(name, "") or choices[0]
    if text not in choices:
        shown = ", ".join(option for option in choices if option)
        raise RestError(400, f"The parameter {name} must be one of {shown}, not {text[:100]!r}")
    return text


def route_of(request: web.Request) -> Route | None:
    """Return the row of the route table for a request, None if it has none. For HEAD this is the row of GET."""
    resource = request.match_info.route.resource
    if resource is None:
        return None
    return BY_PATH.get(("GET" if request.method == "HEAD" else request.method, resource.canonical))


async def body_of(request: web.Request, kind: type[T]) -> T | None:
    """Return the JSON body as a value of `kind`; None for an empty body and for `null`.

    Raises:
        msgspec.MsgspecError: the body does not fit this type.
        RestError: 400, a value in the body is too long, too deep or too large, or the body has a field that this broker
            would ignore.
    """
    data = await request.read()
    if not data.strip() or data.strip() == b"null":
        return None
    value: T = decoded(data, kind)
    return value


def decoded(data: bytes, kind: Any, *, max_text: int = MAX_TEXT) -> Any:
    """Decode received JSON to a value of `kind`. Texts in it may have at most `max_text` characters.

    Raises:
        msgspec.MsgspecError: the data does not fit this type.
        RestError: 400, a value in the data is too long, too deep or too large, or the data has a field that this broker
            would ignore (see `body_fields`).
    """
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError as error:
        raise RestError(400, f"The request body is not valid: it is not text in UTF-8: {error.reason}") from None
    _require_bounds(value, MAX_DEPTH, max_text)
    converted = msgspec.convert(value, kind)
    require_known_fields(value, kind)
    return converted


def _require_bounds(value: Any, depth: int, max_text: int = MAX_TEXT) -> None:
    if isinstance(value, str):
        if len(value) > max_text:
            raise RestError(400, f"The body has a text of {len(value)} characters; at most {max_text} are allowed")
    elif isinstance(value, dict | list):
        if depth == 0:
            raise _too_deep()
        if len(value) > MAX_ENTRIES:
            raise RestError(
                400, f"The body has a list of {count_of(len(value), 'entry')}; at most {MAX_ENTRIES} are allowed"
            )
        for item in value:
            _require_bounds(item, depth - 1, max_text)
        for item in value.values() if isinstance(value, dict) else ():
            _require_bounds(item, depth - 1, max_text)
    elif isinstance(value, int | float) and not -_LARGEST - 1 <= value <= _LARGEST:
        raise RestError(400, "The body has a number that does not fit in 64 bits")


def _too_deep() -> RestError:
    return RestError(400, f"The body has more than {MAX_DEPTH} nested lists and objects")


async def text_of(request: web.Request) -> str:
    """Return the body as text; it may be plain text or a JSON string, because clients send both.

    Raises:
        RestError: 400, the body is not text in UTF-8, or is too long.
        msgspec.MsgspecError: the body is JSON other than a string.
    """
    data = await request.read()
    try:
        text = data.decode().strip()
    except UnicodeDecodeError:
        raise RestError(400, "The body is not text in UTF-8") from None
    if text.startswith(('"', "{", "[")):
        return await body_of(request, str) or ""
    _require_bounds(text, MAX_DEPTH)
    return text


def raw_part(request: web.Request, index: int) -> str:
    """Return a segment of the path as it was sent, still encoded; the first segment has index 1."""
    return request.rel_url.raw_path.split("/")[index]


def subscription_of(request: web.Request) -> str:
    """Return the subscription of a path `/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}`.

    Clients encode the name as a form value: `+` and `%20` are a space.

    Raises:
        InvalidNameError: the name is not valid.
    """
    name = unquote_plus(raw_part(request, 8))
    check_local_name("subscription", name)
    return name


def asked_tenant(request: web.Request) -> str:
    """Return the tenant in the parameter `tenant`, or in `property`, its name in older clients of Pulsar; "" without
    both.
    """
    query = request.rel_url.query
    return query.get("tenant") or query.get("property") or ""


def namespace_of(request: web.Request) -> NamespaceName:
    """Return the namespace of `{tenant}` and `{namespace}` in the path.

    Raises:
        InvalidNameError: the name is not valid.
    """
    return NamespaceName.of(request.match_info["tenant"], request.match_info["namespace"])


def topic_of(request: web.Request) -> TopicName:
    """Return the topic of a path `/admin/v2/{domain}/{tenant}/{namespace}/{topic}…`. If the route has no parameter
    `domain`, the topic is persistent.

    Raises:
        InvalidNameError: the name is not valid.
    """
    local_name = decode_local_name(raw_part(request, 6))
    return TopicName.of(request.match_info.get("domain", "persistent"), namespace_of(request), local_name)

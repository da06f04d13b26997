"""Reading requests and writing answers: names from paths, flags from queries, values from bodies."""

from typing import Any, TypeVar
from urllib.parse import unquote_plus

import msgspec
from aiohttp import web

from barycenter.broker.rest.errors import RestError
from barycenter.naming.namespace import NamespaceName
from barycenter.naming.topic import TopicName, decode_local_name

T = TypeVar("T")


def json_response(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value), content_type="application/json")


def text_response(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/plain")


def no_content() -> web.Response:
    return web.Response(status=204)


def flag(request: web.Request, name: str, default: bool = False) -> bool:
    """Return a boolean of the query; blank is the default.

    Raises:
        RestError: 400, it is neither true nor false.
    """
    text = request.rel_url.query.get(name, "").lower()
    if not text:
        return default
    if text not in ("true", "false"):
        raise RestError(400, f"The parameter {name} must be true or false, not {text!r}")
    return text == "true"


def whole_number(request: web.Request, name: str, default: int, *, at_most: int) -> int:
    """Return a number of the query, from 0 to `at_most`.

    Raises:
        RestError: 400, it is no such number.
    """
    text = request.rel_url.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and int(text) <= at_most):
        raise RestError(400, f"The parameter {name} must be a whole number from 0 to {at_most}, not {text!r}")
    return int(text)


async def body_of(request: web.Request, kind: type[T]) -> T | None:
    """Return the JSON body as a value of `kind`; None for an empty body and for `null`.

    Raises:
        msgspec.MsgspecError: the body is something else.
    """
    data = await request.read()
    if not data.strip() or data.strip() == b"null":
        return None
    return msgspec.json.decode(data, type=kind)


def raw_part(request: web.Request, index: int) -> str:
    """Return a segment of the path as it was sent, still encoded; the path begins with segment 1."""
    return request.rel_url.raw_path.split("/")[index]


def form_decoded(raw: str) -> str:
    """Decode a segment that clients encode as a form value: `+` is a space, as is `%20`."""
    return unquote_plus(raw)


def namespace_of(request: web.Request) -> NamespaceName:
    """Return the namespace of `{tenant}` and `{namespace}` in the path.

    Raises:
        InvalidNameError: it cannot be one.
    """
    return NamespaceName.of(request.match_info["tenant"], request.match_info["namespace"])


def topic_of(request: web.Request) -> TopicName:
    """Return the topic of a path `/admin/v2/{domain}/{tenant}/{namespace}/{topic}…`.

    Raises:
        InvalidNameError: it cannot be one.
    """
    local_name = decode_local_name(raw_part(request, 6))
    return TopicName.of(request.match_info["domain"], namespace_of(request), local_name)

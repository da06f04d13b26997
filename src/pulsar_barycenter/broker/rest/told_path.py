"""What a log may say of a request."""

from aiohttp import web

from pulsar_barycenter.config.broker_conf import HIDDEN


def told_path(request: web.Request) -> str:
    """Return the path as it may stand in a log: a value that a key is set to may be a secret."""
    resource = request.match_info.route.resource
    if resource is None or "value" not in request.match_info:
        return request.path
    told = resource.canonical
    for part, text in request.match_info.items():
        told = told.replace(f"{{{part}}}", HIDDEN if part == "value" else text)
    return told

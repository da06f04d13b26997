"""The path of a request as it may be logged."""

from aiohttp import web

from pulsar_barycenter.config.broker_conf import HIDDEN


def logged_path(request: web.Request) -> str:
    """Return the path for the log, without the value of a configuration key: it may be a secret."""
    resource = request.match_info.route.resource
    if resource is None or "value" not in request.match_info:
        return request.path
    path = resource.canonical
    for part, text in request.match_info.items():
        path = path.replace(f"{{{part}}}", HIDDEN if part == "value" else text)
    return path

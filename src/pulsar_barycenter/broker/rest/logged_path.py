"""Returns the path of a request in a form that may be logged, without secrets."""

from aiohttp import web

from pulsar_barycenter.config.broker_conf import HIDDEN


def logged_path(request: web.Request) -> str:
    """Return the path of a request for the log. The value of a configuration key in it is left out, because it may be
    secret.
    """
    resource = request.match_info.route.resource
    if resource is None or "value" not in request.match_info:
        return request.path
    path = resource.canonical
    for part, text in request.match_info.items():
        path = path.replace(f"{{{part}}}", HIDDEN if part == "value" else text)
    return path

"""Each route of the admin REST is sent by a command of `barycenter admin`, or its row says why not."""

import re
from pathlib import Path

from pulsar_barycenter.admin.routes.table import ROUTES
from pulsar_barycenter.cli.admin.command import RESOURCES
from support.rest_cluster import rest_cluster

TRANSCRIPT = Path(__file__).parents[3] / "data" / "admin" / "transcript.txt"
ROOTS = ("/admin/", "/lookup/")

WITHOUT_COMMAND = {f"{row.method} {row.path}" for row in ROUTES if row.without_command}
"""Routes whose row says why no command sends them."""

NOT_PLAYED = {"POST /admin/v2/brokers/shutdown": ("brokers", "shutdown")}
"""Routes whose command is no line of the transcript, as it would end the broker that the lines are asked of."""


def asked() -> set[tuple[str, str]]:
    """Return the methods and paths that the transcript's lines ask."""
    return set(re.findall(r"^> (\w+) ([^ ?\n]+)", TRANSCRIPT.read_text(), re.MULTILINE))


async def test_each_admin_route_has_a_command_or_a_reason() -> None:
    async with rest_cluster() as cluster:
        app = cluster.brokers[0].web.app  # type: ignore[union-attr]
        routes = [route for route in app.router.routes() if route.method != "HEAD"]
    there = {f"{route.method} {route.resource.canonical}" for route in routes}
    answering = set()
    for method, path in ((method, path.replace("{broker}", "b:1")) for method, path in asked()):
        hit = next((each for each in routes if each.method == method and each.resource._match(path) is not None), None)
        assert hit is not None, f"no route answers {method} {path}"
        answering.add(f"{method} {hit.resource.canonical}")
    of_admin = {route for route in there if route.split()[1].startswith(ROOTS)}
    assert of_admin - answering == WITHOUT_COMMAND | NOT_PLAYED.keys()
    commands = {(resource.name, command.name) for resource in RESOURCES for command in resource.commands}
    assert set(NOT_PLAYED.values()) <= commands

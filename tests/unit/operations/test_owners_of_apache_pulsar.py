"""The owners of bundles in Apache Pulsar, requested without assigning any."""

from collections.abc import Mapping

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import NotNowError, RefusedError

MINE, THEIRS, FREE = (
    f"t/n/{each}" for each in ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xffffffff")
)
BOUNDARIES = ["0x00000000", "0x40000000", "0x80000000", "0xffffffff"]
OTHER = "b2.example:8080"


async def owners(answers: Mapping[str, web.Response], *bundles: str) -> tuple[dict[str, str], list[str]]:
    """Return the owners of bundles with the broker that answers as ME, and the paths that it was asked for."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        me = f"127.0.0.1:{server.port}"
        asked.append(request.path)
        if request.path == "/admin/v2/brokers":
            return web.json_response([OTHER, me])
        if request.path == "/admin/v2/brokers/configuration/runtime":
            return web.json_response({"clusterName": "c"})
        if request.path == "/admin/v2/persistent/t/n":
            assert not request.query  # a broker may block for ever when it is asked for those of a bundle
            return web.json_response([])
        if request.path == "/admin/v2/namespaces/t/n/bundles":
            return web.json_response({"boundaries": BOUNDARIES, "numBundles": 3})
        return answers[request.path]

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    server = TestServer(app)
    await server.start_server()
    client = AdminClient(timeout_s=5)
    try:
        found = await AdminCluster(client, f"http://127.0.0.1:{server.port}").owners(bundles)
        return {bundle: owner.replace(f"127.0.0.1:{server.port}", "ME") for bundle, owner in found.items()}, asked
    finally:
        await client.close()
        await server.close()


def path(bundle: str) -> str:
    return f"/admin/v2/non-persistent/{bundle}"


async def test_owners_are_asked_without_a_look_up_which_would_give_a_bundle_one() -> None:
    """The owner of a bundle lists its non-persistent topics; others redirect to it, or answer that there is none."""
    there = web.Response(status=307, headers={"Location": f"http://{OTHER}{path(THEIRS)}?authoritative=false"})
    answers = {path(MINE): web.json_response([]), path(THEIRS): there, path(FREE): web.Response(status=204)}
    found, asked = await owners(answers, MINE, THEIRS, FREE)
    assert found == {MINE: "ME", THEIRS: OTHER, FREE: ""}
    assert [each for each in asked if "lookup" in each or "ownedNamespaces" in each] == []


@pytest.mark.parametrize(("status", "error"), [(500, NotNowError), (401, RefusedError)])
async def test_a_broker_that_does_not_tell_is_no_owner(status: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="why not"):
        await owners({path(MINE): web.json_response({"reason": "why not"}, status=status)}, MINE)


async def test_a_bundle_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RefusedError, match="does not exist"):
        await owners({}, "t/n/0x00000000_0x80000000")

"""The one mapping from exceptions to answers."""

import pytest
from aiohttp import web

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker import errors as service
from pulsar_barycenter.broker.cluster import lookup_answers as lookups
from pulsar_barycenter.broker.rest.errors import STATUS, RestError, answer_of, errors_as_reasons
from pulsar_barycenter.metadata import errors as metadata
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName

TOPIC = TopicName.parse("t/ns/x")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RestError(406, "no"), 406),
        (AdminRequestError("GET", "http://x", 412, "no"), 412),
        (AdminRequestError("GET", "http://x", 0, "no answer"), 503),
        (InvalidNameError("a b", "Tenant name is not valid"), 412),
        (lookups.TooManyLookupsError(1), 503),
        (lookups.BundleNotFoundError("b"), 412),
        (service.TopicNotFoundError(TOPIC), 404),
        (service.TopicBusyError(TOPIC, subscriptions=1, producers=0, consumers=0), 412),
        (service.ProducerBusyError(TOPIC, "p"), 409),
        (metadata.BadVersionError("/x", 1, 2), 409),
        (metadata.StoreUnavailableError("/x", "gone"), 503),
        (metadata.InvalidValueError("/x", "bad"), 500),
    ],
)
def test_known_errors_have_a_status_and_words(error: Exception, status: int) -> None:
    answer = answer_of(error)
    assert answer is not None
    assert answer[0] == status
    assert answer[1]


def test_what_nobody_knows_is_not_mapped() -> None:
    assert answer_of(ZeroDivisionError("x")) is None


def test_no_row_is_hidden_by_an_earlier_one() -> None:
    kinds = [kind for kind, _ in STATUS]
    for index, kind in enumerate(kinds):
        assert not any(issubclass(kind, earlier) for earlier in kinds[:index]), kind


async def serve(*routes: web.RouteDef) -> tuple[web.AppRunner, str]:
    app = web.Application(middlewares=[errors_as_reasons()])
    app.router.add_routes(routes)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def test_the_unknown_is_told_by_its_name() -> None:
    async def broken(request: web.Request) -> web.Response:
        raise ZeroDivisionError("of all things")

    runner, url = await serve(web.get("/broken", broken))
    client = AdminClient()
    with pytest.raises(AdminRequestError) as caught:
        await client.call("GET", url, "/broken")
    assert (caught.value.status, caught.value.reason) == (500, "ZeroDivisionError: of all things")
    await client.close()
    await runner.cleanup()

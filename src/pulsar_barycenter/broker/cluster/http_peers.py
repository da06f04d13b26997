"""Sends the commands of a leader to other brokers, by their admin REST API. A command has the id of the request that
caused it.
"""

from dataclasses import replace
from typing import Final

import aiohttp
import msgspec

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.admin.routes.barycenter import CHANGE_PARTITION, WRITE_BY_LEADER
from pulsar_barycenter.broker.access.tls_ports import own_tls
from pulsar_barycenter.cluster_logs.request_ids import request_headers
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.client_authentication import NO_AUTHENTICATION
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName

LEADER_WRITES_PATH: Final = WRITE_BY_LEADER.path
SECRET_HEADER: Final = "Barycenter-Leader-Secret"  # noqa: S105  # the name of a header
"""The HTTP header with the secret in a broker's request to the leader to write metadata. It is checked before the body
is read.
"""
LEADER_EPOCH: Final = "leaderEpoch"
"""The URL parameter of a command that contains the epoch of the leader that sends it."""
COMMANDED: Final = "Barycenter-Commanded"
"""The HTTP header that marks a command of a load manager. The load manager records the command among its decisions. So
the broker that carries it out does not record it again, unlike a request of an operator.
"""
_COMMAND: Final = {COMMANDED: "true"}
TOO_MANY: Final = "Too many requests under way"
"""How the answer of a broker begins that refused a request without reading it, because too many requests are
running.
"""


def broker_client(config: BrokerConfig) -> AdminClient:
    """Return a client of the admin REST API that uses the credentials of a broker with this configuration.

    Raises:
        ConfigError, KeyMaterialError: the broker has no credentials.
    """
    tls = own_tls(config)
    return AdminClient(shows=tls.shows, tls=tls, bears=request_headers)


def relaying_client(config: BrokerConfig, most_bytes: int) -> AdminClient:
    """Return a client that passes requests of this broker's clients on to other brokers. It trusts the certificates
    that the broker trusts. It does not send the broker's own credentials, only those that are in the client's request.
    An answer of more than `most_bytes` bytes is an error.
    """
    return AdminClient(
        tls=replace(own_tls(config), shows=NO_AUTHENTICATION), most_bytes=most_bytes, bears=request_headers
    )


class HttpPeers:
    """Sends the commands of a leader to other brokers. Implements `environment.Peers`."""

    def __init__(self, client: AdminClient | None = None) -> None:
        self.client = client or AdminClient(bears=request_headers)

    @classmethod
    def of(cls, config: BrokerConfig) -> "HttpPeers":
        """Return the object that sends commands for a broker with this configuration.

        Raises:
            ConfigError, KeyMaterialError: the broker has no credentials.
        """
        return cls(broker_client(config))

    async def unload_bundle(
        self, broker_url: str, bundle: Bundle, *, destination: str | None, epoch: int | None
    ) -> None:
        """Request the unload of `bundle` from the broker at `broker_url`, which passes the request on to the owner;
        return when the bundle is unloaded.

        `destination` is the id of the next owner; None: any broker. `epoch` is the number of the leader's term in which
        the leader decided this; None: the request is not a leader's.

        Raises:
            AdminRequestError: the broker refused, or did not answer.
        """
        params = _epoch_of(epoch) | ({} if destination is None else {"destinationBroker": destination})
        path = f"{_bundle_path(bundle)}/unload"
        await self.client.call("PUT", broker_url, path, params=params, headers=_COMMAND)

    async def split_bundle(
        self, broker_url: str, bundle: Bundle, *, algorithm: str, unload: bool, epoch: int | None
    ) -> None:
        """Request the split of `bundle` from the broker at `broker_url`, which passes the request on to the owner;
        return when the bundle is split.

        `algorithm` is the name of the split algorithm. `unload`: the owner also unloads the new bundles. `epoch` is the
        number of the leader's term in which the leader decided this; None: the request is not a leader's.

        Raises:
            AdminRequestError: the broker refused, or did not answer.
        """
        params = _epoch_of(epoch) | {"splitAlgorithmName": algorithm, "unload": "true" if unload else "false"}
        await self.client.call("PUT", broker_url, f"{_bundle_path(bundle)}/split", params=params, headers=_COMMAND)

    async def write_by_leader(self, broker_url: str, secret: str, request: bytes) -> bytes:
        """Send a request to write metadata to the leader at `broker_url`, and return its answer. `secret` is the secret
        that the leader requires in each such request.

        Raises:
            ConnectionRefusedError: nothing was written: the broker could not be reached, or it refused the request
                without reading it.
            AdminRequestError: it is not known whether the leader carried out the request.
        """
        try:
            answer = await self.client.call(
                "POST",
                broker_url,
                LEADER_WRITES_PATH,
                body=msgspec.Raw(request),
                headers={SECRET_HEADER: secret},
            )
        except AdminRequestError as error:
            if isinstance(error.__cause__, aiohttp.ClientConnectorError) or _is_unread(error):
                raise ConnectionRefusedError(str(error)) from error
            raise
        return msgspec.json.encode(answer)

    async def change_partition(self, broker_url: str, request: bytes) -> bytes:
        """Send an encoded `PartRequest`, a request about a change of a partition, to the broker at `broker_url`, which
        passes it on to the partition's owner. Return the owner's encoded answer.

        Raises:
            AdminRequestError: the broker refused, or did not answer.
        """
        body = msgspec.Raw(request)
        return msgspec.json.encode(await self.client.call("POST", broker_url, CHANGE_PARTITION.path, body=body))

    async def owner_urls(self, broker_url: str, topic: TopicName) -> tuple[str | None, str | None]:
        """Ask the broker at `broker_url` for the owner of a topic; follow its redirects to other brokers. Return the
        owner's URLs for clients: the plain one, and the one with TLS; each is None if the owner has none.

        Raises:
            AdminRequestError: the asked broker, or one to which it redirected, refused or did not answer.
        """
        path = f"/lookup/v2/topic/{topic.domain}/{topic.namespace}/{topic.encoded_local_name}"
        found = await self.client.call("GET", broker_url, path)
        return found.get("brokerUrl"), found.get("brokerUrlTls")

    async def close(self) -> None:
        await self.client.close()


def _is_unread(error: AdminRequestError) -> bool:
    """Return whether an error shows that a broker refused a request before the request had any effect: the sender is
    not authenticated or has no right, or too many requests are running.

    False for any other answer 503: it may come from a proxy, and then it is not known whether the broker carried the
    request out.
    """
    return error.status in (401, 403) or (error.status == 503 and error.reason.startswith(TOO_MANY))


def _epoch_of(epoch: int | None) -> dict[str, str]:
    return {} if epoch is None else {LEADER_EPOCH: str(epoch)}


def _bundle_path(bundle: Bundle) -> str:
    return f"/admin/v2/namespaces/{bundle}"

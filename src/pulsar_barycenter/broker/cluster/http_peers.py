"""The commands of a leader to other brokers, sent to their admin REST with the id of the request that they are for."""

from dataclasses import replace
from typing import Final

import aiohttp
import msgspec

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.admin.routes.barycenter import CHANGE_PARTITION, WRITE_BY_LEADER
from pulsar_barycenter.broker.access.tls_ports import own_tls
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.presented import NOTHING
from pulsar_barycenter.logs.request_ids import request_headers
from pulsar_barycenter.naming.bundle import Bundle

LEADER_WRITES_PATH: Final = WRITE_BY_LEADER.path
SECRET_HEADER: Final = "Barycenter-Leader-Secret"  # noqa: S105  # it is where one stands
"""With a request to write by the leader: the secret that its body has, too, to be looked at before the body is read."""
LEADER_EPOCH: Final = "leaderEpoch"
"""The parameter that says by which term of a leader a broker is commanded."""
COMMANDED: Final = "Barycenter-Commanded"
"""The header of a load manager's command, which that manager keeps among its decisions: the broker that carries it out
does not keep it once more, as it does what people ask for."""
_COMMAND: Final = {COMMANDED: "true"}
TOO_MANY: Final = "Too many requests under way"
"""How the answer begins of a broker that has so many to do that it has not looked at this request."""


def broker_client(config: BrokerConfig) -> AdminClient:
    """Return a client that comes as a broker of this configuration.

    Raises:
        ConfigError, KeyMaterialError: it has nothing to show to others.
    """
    tls = own_tls(config)
    return AdminClient(shows=tls.shows, tls=tls, bears=request_headers)


def relaying_client(config: BrokerConfig, most_bytes: int) -> AdminClient:
    """Return a client for what others ask through a broker of this configuration: it trusts whom the broker trusts, and
    shows nothing of its own."""
    return AdminClient(tls=replace(own_tls(config), shows=NOTHING), most_bytes=most_bytes, bears=request_headers)


class HttpPeers:
    """The commands that a leader gives to other brokers. Implements `environment.Peers`."""

    def __init__(self, client: AdminClient | None = None) -> None:
        self.client = client or AdminClient(bears=request_headers)

    @classmethod
    def of(cls, config: BrokerConfig) -> "HttpPeers":
        """Return those that a broker of this configuration gives.

        Raises:
            ConfigError, KeyMaterialError: it has nothing to show to others.
        """
        return cls(broker_client(config))

    async def unload_bundle(
        self, broker_url: str, bundle: Bundle, *, destination: str | None, epoch: int | None
    ) -> None:
        """Have `bundle` unloaded by its owner.

        Raises:
            AdminRequestError: it was refused, or no broker answered.
        """
        params = _epoch_of(epoch) | ({} if destination is None else {"destinationBroker": destination})
        path = f"{_bundle_path(bundle)}/unload"
        await self.client.call("PUT", broker_url, path, params=params, headers=_COMMAND)

    async def split_bundle(
        self, broker_url: str, bundle: Bundle, *, algorithm: str, unload: bool, epoch: int | None
    ) -> None:
        """Have `bundle` split by its owner.

        Raises:
            AdminRequestError: it was refused, or no broker answered.
        """
        params = _epoch_of(epoch) | {"splitAlgorithmName": algorithm, "unload": "true" if unload else "false"}
        await self.client.call("PUT", broker_url, f"{_bundle_path(bundle)}/split", params=params, headers=_COMMAND)

    async def write_by_leader(self, broker_url: str, secret: str, request: bytes) -> bytes:
        """Bring a request to write to the leader, and return its answer.

        Raises:
            ConnectionRefusedError: that broker is not reached, or refused to look at the request.
            AdminRequestError: unknown what became of it.
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
        """Bring a request about a partition to its owner, and return the owner's answer.

        Raises:
            AdminRequestError: it was refused, or no broker answered.
        """
        body = msgspec.Raw(request)
        return msgspec.json.encode(await self.client.call("POST", broker_url, CHANGE_PARTITION.path, body=body))

    async def close(self) -> None:
        await self.client.close()


def _is_unread(error: AdminRequestError) -> bool:
    """Tell whether a broker refused a request before anything was done about it: who asks is not known, may not, or
    asks while too many others do. Other answers of 503 may be of somebody in between, who does not know."""
    return error.status in (401, 403) or (error.status == 503 and error.reason.startswith(TOO_MANY))


def _epoch_of(epoch: int | None) -> dict[str, str]:
    return {} if epoch is None else {LEADER_EPOCH: str(epoch)}


def _bundle_path(bundle: Bundle) -> str:
    return f"/admin/v2/namespaces/{bundle}"

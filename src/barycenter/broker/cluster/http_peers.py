"""The commands of a leader to other brokers, sent to their admin REST."""

from barycenter.admin.client import AdminClient
from barycenter.naming.bundle import Bundle


class HttpPeers:
    """The commands that a leader gives to other brokers. Implements `environment.Peers`."""

    def __init__(self, client: AdminClient | None = None) -> None:
        self.client = client or AdminClient()

    async def unload_bundle(
        self, broker_url: str, bundle: Bundle, *, destination: str | None, epoch: int | None
    ) -> None:
        """Have `bundle` unloaded by its owner.

        Raises:
            AdminRequestError: it was refused, or no broker answered.
        """
        params = _epoch_of(epoch) | ({} if destination is None else {"destinationBroker": destination})
        await self.client.call("PUT", broker_url, f"{_bundle_path(bundle)}/unload", params=params)

    async def split_bundle(
        self, broker_url: str, bundle: Bundle, *, algorithm: str, unload: bool, epoch: int | None
    ) -> None:
        """Have `bundle` split by its owner.

        Raises:
            AdminRequestError: it was refused, or no broker answered.
        """
        params = _epoch_of(epoch) | {"splitAlgorithmName": algorithm, "unload": "true" if unload else "false"}
        await self.client.call("PUT", broker_url, f"{_bundle_path(bundle)}/split", params=params)

    async def close(self) -> None:
        await self.client.close()


def _epoch_of(epoch: int | None) -> dict[str, str]:
    return {} if epoch is None else {"leaderEpoch": str(epoch)}


def _bundle_path(bundle: Bundle) -> str:
    return f"/admin/v2/namespaces/{bundle}"

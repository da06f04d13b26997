"""The cluster to which commands send requests."""

from collections.abc import Mapping
from typing import Any, Final

from pulsar_barycenter.admin.client import AdminClient, Answer
from pulsar_barycenter.admin.client_conf import ClientConf
from pulsar_barycenter.admin.commands.table import JSON

_MOST_BYTES: Final = 256 << 20


class ClusterSession:
    """Sends requests to the cluster whose address and credentials a configuration has; an async context manager."""

    def __init__(self, conf: ClientConf, timeout_s: float) -> None:
        self._url = conf.web_service_url
        self._client = AdminClient(timeout_s=timeout_s, shows=conf.shows, tls=conf.tls, most_bytes=_MOST_BYTES)

    @property
    def has_tls(self) -> bool:
        return self._url.startswith("https:")

    async def __aenter__(self) -> "ClusterSession":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def read(self, path: str, *, params: Mapping[str, str] | None = None) -> Answer:
        return await self._client.read(self._url, path, params=params)

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        media_type: str = JSON,
    ) -> Any:
        headers = {} if media_type == JSON else {"Content-Type": media_type}
        return await self._client.call(method, self._url, path, params=params, body=body, headers=headers, or_text=True)

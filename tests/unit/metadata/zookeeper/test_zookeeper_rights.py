"""A real ZooKeeper with TLS that requires certificates, and keys that only their user can access."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pulsar_barycenter.metadata.errors import MetadataError, StoreUnavailableError
from pulsar_barycenter.metadata.open import open_store
from support.certificates import Certificates, make_certificates
from support.zookeeper_server import ZooKeeperServer, shared_zookeeper, zookeeper_server

pytestmark = pytest.mark.xdist_group("zookeeper")

SECRET = "pa55word"
MANY = 300


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "certificates")


@pytest.fixture
async def server(tmp_path: Path, certificates: Certificates) -> AsyncIterator[ZooKeeperServer]:
    with zookeeper_server(tmp_path, certificates=certificates) as server:
        yield server


def written(folder: Path, **keys: object) -> str:
    """Return the path of a file with keys of ZooKeeper's, `__` for a dot."""
    file = folder / f"{uuid.uuid4().hex}.properties"
    file.write_text("".join(f"{key.replace('__', '.')}={value}\n" for key, value in keys.items()))
    return str(file)


async def test_over_tls_all_goes_as_without_and_nobody_comes_without_a_certificate(
    server: ZooKeeperServer, certificates: Certificates, tmp_path: Path
) -> None:
    """For many answers at once a socket reports nothing when the rest is decrypted already."""
    shown = tmp_path / "shown.pem"
    shown.write_text(certificates.certificate.read_text() + certificates.key.read_text())
    secure = {"zookeeper__client__secure": "true", "zookeeper__ssl__trustStore__location": certificates.authority}
    own = {"zookeeper__ssl__keyStore__location": shown}
    url = f"zk:{server.secure_endpoint}/blue"
    store = await open_store(url, config_path=written(tmp_path, **secure, **own))
    heard = asyncio.Event()
    store.add_listener(lambda change: heard.set() if change.path == "/changed" else None)
    values = {f"/many/key-{number}": bytes([number % 256]) * 5_000 for number in range(MANY)}
    await asyncio.gather(*(store.put(path, value, ephemeral=True) for path, value in values.items()))
    found = await asyncio.gather(*map(store.get, values))
    assert [record and record.value for record in found] == list(values.values())
    await store.put("/changed", b"")
    async with asyncio.timeout(30):
        await heard.wait()
    await store.close()

    with pytest.raises(StoreUnavailableError):
        await open_store(url, config_path=written(tmp_path, **secure), operation_timeout_s=2)
    stranger = make_certificates(tmp_path / "strangers").authority
    strange = {**secure, "zookeeper__ssl__trustStore__location": stranger}
    with pytest.raises(StoreUnavailableError, match="certificate verify failed"):
        await open_store(url, config_path=written(tmp_path, **strange, **own), operation_timeout_s=2)


async def test_what_a_user_made_is_that_users_alone_and_the_password_is_told_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    url = f"{shared_zookeeper().url}/{uuid.uuid4().hex}"
    mine = written(tmp_path, user="broker", password=SECRET)
    await (await open_store(url)).close()  # makes the folder, which is everybody's then
    store = await open_store(url, config_path=mine)
    await store.put("/mine", b"1")
    await store.put("/above/mine", b"2", ephemeral=True)
    again = await open_store(url, config_path=mine)
    assert (await again.put("/mine", b"3", expected_version=0)).version == 1
    for other in ("", written(tmp_path, user="broker", password=f"{SECRET}-not")):
        stranger = await open_store(url, config_path=other)
        for asked in (stranger.get("/mine"), stranger.put("/mine", b""), stranger.put("/above/another", b"")):
            with pytest.raises(
                MetadataError, match="user and password in the file of metadataStoreConfigPath"
            ) as refused:
                await asked
            assert SECRET not in str(refused.value)
        await stranger.close()
    for each in (store, again):
        await each.close()
    told = [record.getMessage() for record in caplog.records if record.name != "asyncio"]
    assert any("onnect" in text for text in told), "the client's log is looked at"
    assert not any(SECRET in text for text in told)
    assert logging.getLogger("barycenter.zookeeper").level == logging.INFO

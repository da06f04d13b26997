"""TLS with PEM files: the texts of errors, the versions, and renewed files."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs

from pulsar_barycenter.credentials.client_authentication import parse_authentication
from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.tls import ClientTls, Renewed, ServerTls, common_name, renewing_server_context
from support.authorities import Authority, Issued


def server_tls(issued: Issued, **options: Any) -> ServerTls:
    return ServerTls(str(issued.certificate), str(issued.key), **options)


@asynccontextmanager
async def listening(context: ssl.SSLContext) -> AsyncIterator[int]:
    """Listen at a port that sends every client the CN of the certificate that it presented."""

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{common_name(writer.get_extra_info('peercert'))}\n".encode())
        await reader.read()
        writer.close()

    server = await asyncio.start_server(tell, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def told(port: int, context: ssl.SSLContext) -> tuple[str, str, str]:
    """Return the server's answer to a client, the version of TLS, and the issuer of the server's certificate."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        line = (await reader.readline()).decode().strip()
        found = writer.get_extra_info("peercert")
        issuer = dict(pair for part in found["issuer"] for pair in part)["commonName"]
        return line, writer.get_extra_info("ssl_object").version(), issuer
    finally:
        writer.close()


async def test_a_client_is_known_by_its_certificate(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    tls = server_tls(authority.issue("server"), trust_file=str(authority.file))
    async with listening(tls.context()) as port:
        assert (await told(port, authority.trusting()))[0] == "None"
        assert (await told(port, authority.trusting(authority.issue("alice"))))[0] == "alice"
        assert not (await heard(port, authority.trusting(other.issue("alice"))))
        expired = authority.issue("late", days=-1)
        assert not (await heard(port, authority.trusting(expired)))


async def heard(port: int, context: ssl.SSLContext) -> str:
    """Return the server's answer; nothing if it refuses. With TLS 1.3 a client notices that when it reads."""
    try:
        return (await told(port, context))[0]
    except (OSError, ssl.SSLError):
        return ""


async def test_a_certificate_may_be_required(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("server")
    tls = server_tls(issued, trust_file=str(authority.file), requires_certificate=True)
    async with listening(tls.context()) as port:
        assert not await heard(port, authority.trusting())
        assert (await told(port, authority.trusting(authority.issue("alice"))))[0] == "alice"
    with pytest.raises(KeyMaterialError, match=r"^tlsTrustCertsFilePath: tlsRequireTrustedClientCertOnConnect"):
        server_tls(issued, requires_certificate=True).context()


async def test_weak_versions_are_refused_and_others_may_be(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("server")
    old, middle = authority.trusting(), authority.trusting()
    middle.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    async with listening(server_tls(issued).context()) as port:
        assert (await told(port, authority.trusting()))[1] == "TLSv1.3"
        assert (await told(port, middle))[1] == "TLSv1.2"
        assert not await heard(port, old)
    for settings in ({"protocols": ("TLSv1.3",)}, {"ciphers": ("TLS_AES_256_GCM_SHA384",)}):
        async with listening(server_tls(issued, **settings).context()) as port:
            assert not await heard(port, middle)
            assert (await told(port, authority.trusting()))[1] == "TLSv1.3"


def test_ciphers_have_javas_names_or_openssls(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("server")
    named = {
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
        "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
        "DHE-RSA-AES256-GCM-SHA384": "DHE-RSA-AES256-GCM-SHA384",
    }
    context = server_tls(issued, ciphers=(*named, "TLS_AES_128_GCM_SHA256")).context()
    of_tls_1_2 = {each["name"] for each in context.get_ciphers() if not each["name"].startswith("TLS_")}
    assert of_tls_1_2 == set(named.values())
    with pytest.raises(KeyMaterialError, match=r"^tlsCiphers: OpenSSL has no cipher 'TLS_NONE'"):
        server_tls(issued, ciphers=("TLS_NONE",)).context()
    with pytest.raises(
        KeyMaterialError, match=r"^tlsProtocols: 'TLSv1\.1' is not supported; set .* older versions are weak"
    ):
        server_tls(issued, protocols=("TLSv1.1", "TLSv1.3")).context()


def test_files_that_cannot_be_used_are_named_with_their_key(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, two = authority.issue("one"), authority.issue("two")
    text, nowhere = tmp_path / "text", tmp_path / "nowhere"
    text.write_text("no PEM")
    broken = tmp_path / "broken"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for certificate, key, said in (
        ("", one.key, "^tlsCertificateFilePath: the PEM file is not set"),
        (one.certificate, "", "^tlsKeyFilePath: the PEM file is not set"),
        (nowhere, one.key, "^tlsCertificateFilePath: cannot read .*nowhere: no such file"),
        (one.certificate, text, "^tlsKeyFilePath: .*text is not a PEM file"),
        (one.certificate, two.key, "^tlsKeyFilePath: .* is not the key of the certificate in .*belong together"),
        (broken, one.key, "^tlsKeyFilePath: .* are not a PEM certificate and its key without a password"),
    ):
        with pytest.raises(KeyMaterialError, match=said):
            ServerTls(str(certificate), str(key)).context()
    with pytest.raises(KeyMaterialError, match=r"^tlsTrustCertsFilePath: .*broken contains no PEM certificates"):
        server_tls(one, trust_file=str(broken)).context()
    with pytest.raises(KeyMaterialError, match=r"^brokerClientTrustCertsFilePath: cannot read .*nowhere"):
        ClientTls(str(nowhere)).context()
    shows = parse_authentication("tls", f"tlsCertFile:{one.certificate},tlsKeyFile:{two.key}")
    with pytest.raises(KeyMaterialError, match=r"^brokerClientAuthenticationParameters: .* is not the key"):
        ClientTls(str(authority.file), shows).context()


async def test_a_client_trusts_whom_it_is_told_to(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    alice = other.issue("alice")
    shows = parse_authentication("tls", f"tlsCertFile:{alice.certificate},tlsKeyFile:{alice.key}")
    tls = server_tls(authority.issue("server"), trust_file=str(other.file))
    async with listening(tls.context()) as port:
        assert (await told(port, ClientTls(str(authority.file), shows).context()))[0] == "alice"
        with pytest.raises(ssl.SSLCertVerificationError):
            await told(port, ClientTls(str(other.file)).context())
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=ClientTls(verifies=False).context())
        assert (await reader.readline()).strip() == b"None"
        writer.close()


async def test_new_connections_go_by_renewed_files_and_open_ones_live_on(tmp_path: Path) -> None:
    before, after = Authority(tmp_path, "before"), Authority(tmp_path, "after")
    files, now = before.issue("server", "server"), [0.0]
    (tmp_path / "trust.pem").write_bytes(before.file.read_bytes())
    tls = server_tls(files, trust_file=str(tmp_path / "trust.pem"))
    both = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for each in (before, after):
        both.load_verify_locations(each.file)
    async with listening(renewing_server_context(tls, check_s=10, now_s=lambda: now[0])) as port:
        assert (await told(port, both))[2] == "before"
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=both)
        assert await reader.readline() == b"None\n"
        old_client, new_client = before.issue("alice"), after.issue("alice")
        after.issue("server", "server")
        (tmp_path / "trust.pem").write_bytes(after.file.read_bytes())
        assert (await told(port, both))[2] == "before", "it is not time to look yet"
        now[0] = 10
        assert (await told(port, both))[2] == "after"
        for client, is_trusted in ((new_client, True), (old_client, False)):
            context = after.trusting(client)
            assert bool(await heard(port, context)) is is_trusted, "whom to trust is renewed, too"
        assert not reader.at_eof()
        writer.close()


def hand_shake(
    client_side: ssl.SSLContext, server_side: ssl.SSLContext, session: Any = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Perform a handshake without a socket. Return the client's side, which has received everything that the server
    sent, and the server's: while that is open, OpenSSL does not drop its session after an unclean end."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server, server_hostname="localhost", session=session)
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    server.write(b"!")
    assert client.read() == b"!"
    return client, server


def end_in_order(client: ssl.SSLObject, server: ssl.SSLObject) -> None:
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.unwrap()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("ends", [False, True])
def test_no_session_goes_on(tmp_path: Path, version: str, ends: bool) -> None:
    """It would go on by a certificate that has expired since, or whose authority is trusted no more."""
    authority = Authority(tmp_path)
    alice = authority.trusting(authority.issue("alice"))
    tls = server_tls(authority.issue("server"), trust_file=str(authority.file), protocols=(version,))
    listened_by = renewing_server_context(tls, check_s=0, now_s=lambda: 0.0)
    client, server = hand_shake(alice, listened_by)
    assert (client.version(), common_name(server.getpeercert())) == (version, "alice")
    if ends:
        end_in_order(client, server)
    again, asked_again = hand_shake(alice, listened_by, client.session)
    assert not again.session_reused
    assert common_name(asked_again.getpeercert()) == "alice"


def test_a_plain_context_would_let_sessions_of_tls_1_2_go_on(tmp_path: Path) -> None:
    """What the test above is about: OpenSSL remembers sessions by their ids, tickets or not."""
    authority = Authority(tmp_path)
    trusting, context = authority.trusting(), server_tls(authority.issue("server"), protocols=("TLSv1.2",)).context()
    client, server = hand_shake(trusting, context)
    again, _ = hand_shake(trusting, context, client.session)
    assert again.session_reused
    assert server.version() == "TLSv1.2"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_whose_authority_is_trusted_no_more_is_out_with_its_session(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    trust = tmp_path / "trust.pem"
    trust.write_bytes(authority.file.read_bytes())
    tls = server_tls(authority.issue("server"), trust_file=str(trust), protocols=("TLSv1.2",))
    alice = authority.trusting(authority.issue("alice"))

    def ask(port: int, session: Any) -> tuple[str, Any, bool]:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
            try:
                with alice.wrap_socket(raw, server_hostname="localhost", session=session) as client:
                    found = client.recv(100).decode().strip(), client.session, bool(client.session_reused)
                    client.unwrap()
                    return found
            except OSError:
                return "", session, False

    async def play() -> None:
        async with listening(renewing_server_context(tls, check_s=0, now_s=lambda: 0.0)) as port:
            told, session, _ = await asyncio.to_thread(ask, port, None)
            assert told == "alice"
            assert (await asyncio.to_thread(ask, port, session))[::2] == ("alice", False)
            trust.write_bytes(other.file.read_bytes())
            assert (await asyncio.to_thread(ask, port, session))[0] == ""

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(play())


async def test_files_that_became_wrong_are_told_and_change_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files, now = authority.issue("server", "server"), [0.0]
    renewed = Renewed(server_tls(files), check_s=10, now_s=lambda: now[0])
    before = renewed.context()
    authority.issue("another", "another")
    os.replace(tmp_path / "another.cert.pem", files.certificate)  # the key is written next, a moment later
    with capture_logs() as logs:
        for now[0] in (10.0, 20.0):
            assert renewed.context() is before
    assert ["is not the key" in each["reason"] for each in logs] == [True]
    os.replace(tmp_path / "another.key.pem", files.key)
    now[0] = 30.0
    assert renewed.context() is not before


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        (None, None),
        ({}, None),
        ({"subject": ((("organizationName", "o"),),)}, None),
        ({"subject": ((("organizationName", "o"),), (("commonName", "alice"),))}, "alice"),
        ({"subject": ((("commonName", ""),),)}, None),
    ],
)
def test_the_role_is_the_common_name(certificate: Any, name: str | None) -> None:
    assert common_name(certificate) == name

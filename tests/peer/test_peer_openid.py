"""Which access tokens Pulsar's own provider believes, and ours: the same, by the keys of one issuer on loopback.

Maven Central has the provider up to 4.0.8, which refuses tokens without `nbf`; Pulsar does so no more, so each has one.
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.providers.openid_provider import OpenIDProvider
from pulsar_barycenter.broker.access.received_credentials import Credentials
from support.fake_issuer import AUDIENCE, EC_KEY, OTHER_RSA_KEY, RSA_KEY, FakeIssuer, fake_issuer, jwk, openid_config
from support.maven import Dependency, PeerUnavailableError, class_path, java_of

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("openid provider")]

PROVIDER = "org.apache.pulsar:pulsar-broker-auth-oidc"
VERSION = "4.0.8"
HTTP = (
    ("io.netty:netty-codec-http", "4.1.128.Final"),
    ("io.netty:netty-handler-proxy", "4.1.128.Final"),
    ("com.typesafe.netty:netty-reactive-streams", "2.0.4"),
)
"""What its HTTP client needs, and what its project, as it is published, does not ask for."""
SOURCE = Path(__file__).parents[1] / "support" / "java" / "OpenIdVerdicts.java"
EC384 = ec.generate_private_key(ec.SECP384R1())
LEEWAY_S = 30
SECOND = "second"

Judge = Callable[[str], Awaitable[str | None]]


@asynccontextmanager
async def pulsars(issuer: FakeIssuer, role_claim: str) -> AsyncIterator[Judge]:
    """Start a JVM with Pulsar's provider; it answers with the role, None for a refusal."""
    jars = await asyncio.to_thread(
        class_path,
        # its parent project names a repository that is gone, for a store that is not used here
        Dependency(PROVIDER, VERSION, without=("org.apache.pulsar:jetcd-core-shaded",)),
        *(Dependency(*each) for each in HTTP),
        versions_of=Dependency("org.apache.pulsar:pulsar", VERSION),
    )
    process = await asyncio.create_subprocess_exec(
        *(java_of(17)[0], "-cp", os.pathsep.join(jars), str(SOURCE)),
        f"openIDAllowedTokenIssuers={issuer.url}",
        f"openIDAllowedAudiences={AUDIENCE},{SECOND}",
        "openIDRequireIssuersUseHttps=false",
        f"openIDAcceptedTimeLeewaySeconds={LEEWAY_S}",
        f"openIDRoleClaim={role_claim}",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    sent, answers = process.stdin, process.stdout

    async def judge(token: str) -> str | None:
        sent.write(f"{token}\n".encode())
        await sent.drain()
        while not (told := (await answers.readline()).decode()).startswith("VERDICT "):
            assert told, "the JVM ended"  # a line that some library of theirs logs
        kind, _, rest = told.removeprefix("VERDICT ").rstrip("\n").partition(" ")
        return rest if kind == "believed" else None

    try:
        yield judge
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def ours(issuer: FakeIssuer, role_claim: str) -> AsyncIterator[Judge]:
    provider = OpenIDProvider.of(
        openid_config(
            issuer.url,
            openid_allowed_audiences=(AUDIENCE, SECOND),
            openid_accepted_time_leeway_seconds=float(LEEWAY_S),
            openid_role_claim=role_claim,
        )
    )

    async def judge(token: str) -> str | None:
        try:
            return (await provider.identify(Credentials("token", token.encode()), time.time())).role
        except AuthenticationError:
            return None

    try:
        yield judge
    finally:
        await provider.close()


def drawn(draw: random.Random, issuer: FakeIssuer) -> dict[str, Any]:
    """Return a token's own key and claims, of which some are other than they should be; times keep off the moment."""
    now = int(time.time())
    choices: dict[str, list[Any]] = {
        "iss": [issuer.url, issuer.url + "/", issuer.url.upper(), "https://evil.example", None],
        "aud": [AUDIENCE, [AUDIENCE], ["elsewhere", SECOND], "elsewhere", [], None],
        "sub": ["alice", "bob", None],
        "groups": [None, "orders", ["orders"], ["orders", "clicks"], [], 7],
        "exp": [now + 3600, now - LEEWAY_S + 15, now - LEEWAY_S - 15, now - 86_400, None],
        "iat": [now, now - 86_400, now + 15, now + LEEWAY_S + 60, None],
        "nbf": [now, now - 86_400, now + 15, now + LEEWAY_S + 60],
    }
    usual = {name: values[0] for name, values in choices.items()}
    changed = {name: draw.choice(choices[name]) for name in draw.sample(sorted(choices), draw.choice([0, 1, 1, 1, 2]))}
    keys = [
        {"key": RSA_KEY, "key_id": "one", "algorithm": draw.choice(["RS256", "RS384", "RS512"])},
        {"key": RSA_KEY, "key_id": "stated", "algorithm": draw.choice(["RS256", "RS256", "RS384"])},
        {"key": EC_KEY, "key_id": "two", "algorithm": "ES256"},
        {"key": EC384, "key_id": "three", "algorithm": "ES384"},
        {"key": OTHER_RSA_KEY, "key_id": draw.choice(["one", "two", "none such"]), "algorithm": "RS256"},
        {"key": None, "key_id": "one", "algorithm": "none"},
        {"key": b"x" * 64, "key_id": "one", "algorithm": "HS256"},
        {"key": RSA_KEY, "key_id": None, "algorithm": "RS256"},
    ]
    return {**usual, **changed, **draw.choice([*keys[:4] * 3, *keys[4:]])}


@pytest.mark.drawn(1)
@pytest.mark.parametrize("role_claim", ["sub", "groups"])
async def test_both_believe_the_same_tokens(role_claim: str, request: pytest.FixtureRequest) -> None:
    options = request.config.getoption
    draw, cases = random.Random(f"{options('--peer-seed')} {role_claim}"), options("--peer-cases")
    async with AsyncExitStack() as stack:
        issuer = await stack.enter_async_context(fake_issuer())
        issuer.keys = [
            jwk(RSA_KEY, "one"),
            jwk(RSA_KEY, "stated", alg="RS256"),
            jwk(EC_KEY, "two", alg="ES256"),
            jwk(EC384, "three"),
        ]
        try:
            theirs = await stack.enter_async_context(pulsars(issuer, role_claim))
        except PeerUnavailableError as error:
            if options("--peer-required"):
                raise
            pytest.skip(str(error))
        own = await stack.enter_async_context(ours(issuer, role_claim))
        believed = 0
        for _ in range(cases):
            case = drawn(draw, issuer)
            token = issuer.token(**case)
            one, other = await own(token), await theirs(token)
            assert one == other, f"{case}: ours {one}, Pulsar {other}"
            believed += one is not None
        assert 0 < believed < cases

"""An issuer of tokens on loopback that a test controls: its keys, its metadata, and its answers."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from pulsar_barycenter.config.broker_config import BrokerConfig

AUDIENCE = "https://cluster.example"
CLIENT = {"client_id": "alice", "client_secret": "sesame-of-alice"}
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def jwk(key: PrivateKey, key_id: str, **more: Any) -> dict[str, Any]:
    """Return the public part of a key, as an issuer publishes it."""
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        made = RSAAlgorithm.to_jwk(public, as_dict=True)
    else:
        made = ECAlgorithm.to_jwk(public, as_dict=True)
    return {**{name: value for name, value in made.items() if name != "key_ops"}, "kid": key_id, "use": "sig", **more}


def access_token(
    issuer: str,
    *,
    key: Any = RSA_KEY,
    key_id: str | None = "one",
    algorithm: str | None = "RS256",
    now_s: float | None = None,
    headers: Mapping[str, Any] | None = None,
    **claims: Any,
) -> str:
    """Return a token of an hour for AUDIENCE and the role alice; a claim with the value None is left out."""
    now = int(time.time() if now_s is None else now_s)
    said = {"iss": issuer, "sub": "alice", "aud": AUDIENCE, "iat": now, "exp": now + 3600, **claims}
    said = {name: value for name, value in said.items() if value is not None}
    sent = {**({} if key_id is None else {"kid": key_id}), **(headers or {})}
    return jwt.api_jws.encode(json.dumps(said).encode(), key, algorithm, sent)  # the other one checks its claims


@dataclass
class FakeIssuer:
    """`keys` are published; `asked` counts the requests by path. `hangs` leaves requests without an answer, `status`
    answers all with that status, `moved_to` with a redirect. The token endpoint returns `token` with `lifetime_s`."""

    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=lambda: [jwk(RSA_KEY, "one", alg="RS256")])
    metadata: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    forms: list[dict[str, str]] = field(default_factory=list)
    hangs: bool = False
    status: int = 200
    moved_to: str = ""
    padding: int = 0
    lifetime_s: Any = 3600
    claims: dict[str, Any] = field(default_factory=dict)
    has_answered: asyncio.Event = field(default_factory=asyncio.Event)
    ends: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def fetches(self) -> int:
        """Return how often the keys were requested."""
        return self.asked.get("/jwks", 0)

    def token(self, **options: Any) -> str:
        return access_token(self.url, **{**self.claims, **options})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.path] = self.asked.get(request.path, 0) + 1
        if self.hangs:
            await self.ends.wait()
        if self.moved_to:
            raise web.HTTPFound(self.moved_to)
        if self.status != 200:
            return web.Response(status=self.status)
        if request.path == "/token":
            return await self._give(request)
        if request.path == "/jwks":
            self.has_answered.set()
            return web.json_response({"keys": self.keys, "padding": "x" * self.padding})
        return web.json_response(
            {"issuer": self.url, "jwks_uri": f"{self.url}/jwks", "token_endpoint": f"{self.url}/token", **self.metadata}
        )

    async def _give(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        if form.get("client_secret") != CLIENT["client_secret"]:
            return web.json_response({"error": "invalid_client", "error_description": str(form)}, status=401)
        made = self.token(sub=form["client_id"], jti=str(len(self.forms)))
        return web.json_response({"access_token": made, "token_type": "Bearer", "expires_in": self.lifetime_s})


@asynccontextmanager
async def fake_issuer(port: int = 0) -> AsyncIterator[FakeIssuer]:
    """Serve an issuer, at this port of loopback if one is given."""
    issuer = FakeIssuer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", issuer.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield issuer
    finally:
        issuer.ends.set()
        await runner.cleanup()


def private_key_url(**said: Any) -> str:
    """Return credentials as a `data:` URL, by default alice's."""
    text = json.dumps({"type": "client_credentials", **CLIENT, **said})
    return f"data:application/json;base64,{base64.b64encode(text.encode()).decode()}"


def oauth2(issuer: str, **said: str) -> str:
    """Return the parameters of a client of an issuer."""
    return json.dumps({"issuerUrl": issuer, "privateKey": private_key_url(), "audience": AUDIENCE, **said})


def openid(issuer: str, **settings: Any) -> dict[str, Any]:
    """Return settings of a broker that trusts an issuer on loopback, and presents a token of it itself."""
    return {
        "authentication_enabled": True,
        "authentication_providers": ("org.apache.pulsar.broker.authentication.oidc.AuthenticationProviderOpenID",),
        "openid_allowed_token_issuers": (issuer,),
        "openid_allowed_audiences": (AUDIENCE,),
        "openid_require_issuers_use_https": False,
        "broker_client_authentication_plugin": "org.apache.pulsar.client.impl.auth.oauth2.AuthenticationOAuth2",
        "broker_client_authentication_parameters": oauth2(issuer),
        **settings,
    }


def openid_config(issuer: str, **settings: Any) -> BrokerConfig:
    return BrokerConfig(**openid(issuer, **settings))

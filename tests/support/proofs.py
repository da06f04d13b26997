"""Keys and tokens for tests, and a clock that tests set."""

import base64
from dataclasses import dataclass
from typing import Any

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.token_keys import SigningKey, signing_secret_key
from pulsar_barycenter.credentials.tokens import create_token

NOW_S = 1_700_000_000
SECRET = b"a secret of thirty-two bytes, at least"
SECRET_URL = f"data:;base64,{base64.b64encode(SECRET).decode()}"
KEY = signing_secret_key(SECRET_URL, "test")


@dataclass
class SetClock:
    """Stays at NOW_S until a test changes it."""

    now_s: float = NOW_S

    def now_ms(self) -> int:
        return round(self.now_s * 1000)


def token(role: str, *, expires_at_s: int | None = None, key: SigningKey = KEY) -> str:
    return create_token(key, role, expires_at_s=expires_at_s)


def by_token(role: str, **options: Any) -> dict[str, Any]:
    """Return the CONNECT fields of a client that presents the token of a role."""
    return {"auth_method_name": "token", "auth_data": token(role, **options).encode()}


def asking(**settings: Any) -> dict[str, Any]:
    """Return settings of a broker that requires tokens, and presents one itself."""
    return {
        "authentication_enabled": True,
        "authentication_providers": ("token",),
        "token_secret_key": SECRET_URL,
        "broker_client_authentication_plugin": "token",
        "broker_client_authentication_parameters": f"token:{token('broker')}",
        **settings,
    }


def asking_config(**settings: Any) -> BrokerConfig:
    return BrokerConfig(**asking(**settings))

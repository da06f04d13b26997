"""Invalid proofs for each authentication method of a broker, and settings of a broker that must refuse all of them."""

import base64
from dataclasses import dataclass
from typing import Any, Final

import jwt

from support.known_roles import ROOT
from support.proofs import SECRET, asking

AUDIENCE: Final = "this cluster"
PASSWORD: Final = "sesame"  # of a test
_USERS: Final = f"{ROOT}:$apr1$abcdefgh$GQVaHFsauSKl0cgw4bVFJ/\n"


def claimed(key: bytes = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    """Return a token of ROOT for this cluster, changed by `claims`; None removes a claim."""
    said = {"sub": ROOT, "aud": AUDIENCE, **claims}
    return jwt.encode({name: value for name, value in said.items() if value is not None}, key, algorithm)


def settings(**more: Any) -> dict[str, Any]:
    """Return the settings of a broker that accepts tokens and passwords, admits anonymous clients, and checks
    permissions."""
    return asking(
        authentication_providers=("token", "basic"),
        token_audience_claim="aud",
        token_audience=AUDIENCE,
        basic_auth_conf=f"data:;base64,{base64.b64encode(_USERS.encode()).decode()}",
        broker_client_authentication_parameters=f"token:{claimed()}",
        anonymous_user_role="guest",
        authorization_enabled=True,
        super_user_roles=(ROOT,),
        **more,
    )


@dataclass(frozen=True, slots=True)
class Proof:
    """Credentials of one method, and the text that the refusal must contain."""

    method: str
    data: str
    said: str = ""

    @property
    def in_connect(self) -> dict[str, Any]:
        return {"auth_method_name": self.method, "auth_data": self.data.encode()}

    @property
    def in_header(self) -> dict[str, str]:
        if self.method == "token":
            return {"Authorization": f"Bearer {self.data}"}
        return {"Authorization": f"Basic {base64.b64encode(self.data.encode()).decode()}"}


def _tampered() -> str:
    """Return the token of another role with ROOT inserted as its subject."""
    head, _, signature = claimed(sub="mallory").split(".")
    return f"{head}.{claimed().split('.')[1]}.{signature}"


def _unsigned(algorithm: str) -> str:
    head = base64.urlsafe_b64encode(f'{{"typ":"JWT","alg":"{algorithm}"}}'.encode()).rstrip(b"=").decode()
    return f"{head}.{claimed().split('.')[1]}."


GOOD: Final = {"token": Proof("token", claimed()), "password": Proof("basic", f"{ROOT}:{PASSWORD}")}
"""That the settings are right, and what follows is refused for what it is."""

BAD: Final = {
    "expired": Proof("token", claimed(exp=1), "the token expired"),
    "not valid yet": Proof("token", claimed(nbf=1 << 33), "not valid before"),
    "times that are none": Proof("token", claimed(exp=1 << 62), "not a number of seconds"),
    "tampered": Proof("token", _tampered(), "or it was changed"),
    "no signature": Proof("token", claimed().rpartition(".")[0] + ".", "or it was changed"),
    "alg none": Proof("token", _unsigned("none"), "not signed with an algorithm of this cluster's key"),
    "alg None": Proof("token", _unsigned("None"), "not signed with an algorithm of this cluster's key"),
    "another key": Proof("token", claimed(b"another secret of thirty-two bytes!"), "not signed by the key"),
    "another audience": Proof("token", claimed(aud="that cluster"), "not for this cluster"),
    "no audience": Proof("token", claimed(aud=None), "not for this cluster"),
    "no role": Proof("token", claimed(sub=None), "has no role"),
    "a role of control characters": Proof("token", claimed(sub="ro\x00ot"), "has no role"),
    "no token": Proof("token", "sesame", "not a JSON Web Token"),
    "wrong password": Proof("basic", f"{ROOT}:{PASSWORD}!", "the user or the password is wrong"),
    "no password": Proof("basic", f"{ROOT}:", "the user or the password is wrong"),
    "unknown user": Proof("basic", f"mallory:{PASSWORD}", "the user or the password is wrong"),
    "no user": Proof("basic", PASSWORD, ""),
}

"""The keys that sign and verify tokens, and the algorithms of each key.

Files of public and private keys are in the formats of Pulsar's tools, DER (X.509 and PKCS #8), or PEM. A secret key is
a file of plain bytes. The key and `tokenPublicAlg` decide which algorithms are accepted, never a token.

Source: Pulsar's `AuthTokenUtils`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)

from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.key_material import read_key_material

SECRET_ALGORITHMS: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The algorithms with a secret key, each with the minimum length of its key in bytes."""
RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512")
EC_CURVES: Final[Mapping[str, ec.EllipticCurve]] = {
    "ES256": ec.SECP256R1(),
    "ES384": ec.SECP384R1(),
    "ES512": ec.SECP521R1(),
}
PUBLIC_ALGORITHMS: Final = (*RSA_ALGORITHMS, *EC_CURVES)

_MIN_RSA_BITS: Final = 2048
_PEM: Final = b"-----BEGIN "

PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key that verifies signatures of tokens. `algorithms` are the only ones that such a signature may have."""

    key: bytes | PublicKey = field(repr=False)
    algorithms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that signs tokens, and the algorithm with which it signs."""

    key: bytes | PrivateKey = field(repr=False)
    algorithm: str


def secret_key(text: str, setting: str = "tokenSecretKey") -> VerifyingKey:
    """Read a secret key that verifies tokens. The accepted algorithms are those for which the key is long enough.

    Raises:
        KeyMaterialError: the key cannot be read, is too short, or is of another kind.
    """
    data = _secret(text, setting)
    return VerifyingKey(data, tuple(name for name, least in SECRET_ALGORITHMS.items() if len(data) >= least))


def signing_secret_key(text: str, setting: str) -> SigningKey:
    """Read a secret key that signs tokens, with the strongest algorithm for which it is long enough, as Pulsar's tools
    do.

    Raises:
        KeyMaterialError: the key cannot be read, is too short, or is of another kind.
    """
    return SigningKey(_secret(text, setting), secret_key(text, setting).algorithms[-1])


def public_key(text: str, algorithm: str = "RS256", setting: str = "tokenPublicKey") -> VerifyingKey:
    """Read a public key that verifies tokens. `algorithm`, one of PUBLIC_ALGORITHMS, says which kind of key it is. An
    RSA key accepts tokens with any of the three RSA algorithms, whichever of them `algorithm` is.

    Raises:
        KeyMaterialError: the key cannot be read, is of another kind than `algorithm` needs, or is too weak.
    """
    data = read_key_material(text, setting)
    try:
        key = load_pem_public_key(data) if data.startswith(_PEM) else load_der_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise KeyMaterialError(
            setting, "the given data is not a public key in DER (X.509) or PEM: give such a key"
        ) from None
    return VerifyingKey(_of_kind(key, algorithm, setting), _algorithms_like(algorithm, setting))


def private_key(text: str, algorithm: str, setting: str) -> SigningKey:
    """Read a private key that signs tokens with `algorithm`, which is one of PUBLIC_ALGORITHMS.

    Raises:
        KeyMaterialError: the key cannot be read, is of another kind than `algorithm` needs, or is too weak.
    """
    data = read_key_material(text, setting)
    try:
        if data.startswith(_PEM):
            key = load_pem_private_key(data, password=None)
        else:
            key = load_der_private_key(data, password=None)
    except TypeError:
        raise KeyMaterialError(setting, "the private key is encrypted; give a private key without a password") from None
    except (ValueError, UnsupportedAlgorithm):
        raise KeyMaterialError(
            setting, "the given data is not a private key in DER (PKCS #8) or PEM: give such a key"
        ) from None
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise KeyMaterialError(setting, f"{algorithm} needs {_kind(algorithm)}")
    _of_kind(key.public_key(), algorithm, setting)
    return SigningKey(key, algorithm)


def new_key_pair(algorithm: str) -> tuple[bytes, bytes]:
    """Create a key pair for one of PUBLIC_ALGORITHMS. Return the private key (PKCS #8) and the public key (X.509), both
    in DER.
    """
    key: PrivateKey
    if algorithm in RSA_ALGORITHMS:
        key = rsa.generate_private_key(public_exponent=65_537, key_size=_MIN_RSA_BITS)
    else:
        key = ec.generate_private_key(EC_CURVES[algorithm])
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return private, key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _secret(text: str, setting: str) -> bytes:
    data = read_key_material(text, setting)
    if data.startswith(_PEM):
        raise KeyMaterialError(
            setting, "the given data is a PEM key, not a secret key; a public key belongs in tokenPublicKey"
        )
    least = min(SECRET_ALGORITHMS.values())
    if len(data) < least:
        raise KeyMaterialError(
            setting,
            f"a secret key must have {least} bytes or more, and the given key has {len(data)}; "
            "`barycenter tokens create-secret-key` creates a key. A key file must have the plain bytes, not Base64",
        )
    return data


def _of_kind(key: object, algorithm: str, setting: str) -> PublicKey:
    if algorithm in RSA_ALGORITHMS and isinstance(key, rsa.RSAPublicKey):
        if key.key_size < _MIN_RSA_BITS:
            raise KeyMaterialError(
                setting, f"an RSA key must have {_MIN_RSA_BITS} bits or more, and the given key has {key.key_size}"
            )
        return key
    curve = EC_CURVES.get(algorithm)
    if curve is not None and isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == curve.name:
        return key
    raise KeyMaterialError(setting, f"{algorithm} needs {_kind(algorithm)}")


def _algorithms_like(algorithm: str, setting: str) -> tuple[str, ...]:
    if algorithm not in PUBLIC_ALGORITHMS:
        raise KeyMaterialError(setting, f"the algorithm must be one of {', '.join(PUBLIC_ALGORITHMS)}")
    return RSA_ALGORITHMS if algorithm in RSA_ALGORITHMS else (algorithm,)


def _kind(algorithm: str) -> str:
    return f"a key of the curve {EC_CURVES[algorithm].name}" if algorithm in EC_CURVES else "an RSA key"

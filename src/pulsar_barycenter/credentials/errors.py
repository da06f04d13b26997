"""Errors in what an operator configured, one shallow tree. No message repeats a secret.

CredentialsError
├── KeyMaterialError       a key, certificate or password file that cannot be used
│   └── NoTokenError       an issuer gives no token at the moment
└── IssuerError            an issuer of tokens does not answer, or its answer cannot be used
"""


class CredentialsError(Exception):
    """Base class of the errors of this package."""


class KeyMaterialError(CredentialsError):
    """A credential, or a file of one, cannot be used. `setting` is the key of broker.conf or the option with the fault,
    `detail` the fault and what to do.
    """

    def __init__(self, setting: str, detail: str) -> None:
        super().__init__(f"{setting}: {detail}")
        self.setting = setting
        self.detail = detail


class NoTokenError(KeyMaterialError):
    """The settings are correct; a later attempt may succeed."""


class IssuerError(CredentialsError):
    """An issuer's address or answer cannot be used. `url` is the address that was requested, `detail` the fault. The
    message does not repeat the answer, nor a user, password or query in the address.
    """

    def __init__(self, url: str, detail: str) -> None:
        super().__init__(f"{url.partition('?')[0].rpartition('@')[2][:200]} {detail}")
        self.url = url
        self.detail = detail

"""Errors in the credentials that an operator configured. No message repeats a secret.

CredentialsError
├── KeyMaterialError       a key, certificate or password file that cannot be used
│   └── NoTokenError       an issuer gives no token at the moment
└── IssuerError            an issuer of tokens does not answer, or its answer cannot be used
"""


class CredentialsError(Exception):
    """Base class of the errors of this package."""


class KeyMaterialError(CredentialsError):
    """A credential, or the file that contains it, cannot be used. `setting` is the wrong key of broker.conf, or the
    wrong option of the command. `detail` says what is wrong and what to do.
    """

    def __init__(self, setting: str, detail: str) -> None:
        super().__init__(f"{setting}: {detail}")
        self.setting = setting
        self.detail = detail


class NoTokenError(KeyMaterialError):
    """No token could be obtained now: the issuer did not answer, or refused. A later attempt may succeed."""


class IssuerError(CredentialsError):
    """An address of an issuer, or its answer, cannot be used. `url` is the address, `detail` says what is wrong.

    The message does not repeat the answer, nor a user, password or query in the address.
    """

    def __init__(self, url: str, detail: str) -> None:
        super().__init__(f"{url.partition('?')[0].rpartition('@')[2][:200]} {detail}")
        self.url = url
        self.detail = detail

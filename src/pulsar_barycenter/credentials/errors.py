"""What is wrong with what an operator gave, one shallow tree; nothing secret is repeated in them.

CredentialsError
├── KeyMaterialError       a key, certificate or password file that cannot be used
│   └── NoTokenError       an issuer gives no token at the moment
└── IssuerError            what an issuer of tokens answers cannot be used, or it does not answer
"""


class CredentialsError(Exception):
    pass


class KeyMaterialError(CredentialsError):
    """`setting` is the key of broker.conf or the option that named it, `detail` what is wrong and what to do."""

    def __init__(self, setting: str, detail: str) -> None:
        super().__init__(f"{setting}: {detail}")
        self.setting = setting
        self.detail = detail


class NoTokenError(KeyMaterialError):
    """Nothing is wrong with the settings as they are written; asking again later may help."""


class IssuerError(CredentialsError):
    """`url` is what was asked, `detail` what is wrong with it or with the answer, of which nothing is repeated; nor is
    a user, password or query in the address."""

    def __init__(self, url: str, detail: str) -> None:
        super().__init__(f"{url.partition('?')[0].rpartition('@')[2][:200]} {detail}")
        self.url = url
        self.detail = detail

"""What is wrong with what an operator gave, one shallow tree; nothing secret is repeated in them.

CredentialsError
└── KeyMaterialError    a key, certificate or password file that cannot be used
"""


class CredentialsError(Exception):
    pass


class KeyMaterialError(CredentialsError):
    """`setting` is the key of broker.conf or the option that named it, `detail` what is wrong and what to do."""

    def __init__(self, setting: str, detail: str) -> None:
        super().__init__(f"{setting}: {detail}")
        self.setting = setting
        self.detail = detail

"""Errors of names and bundles, all of them ValueErrors.

ValueError
├── InvalidNameError      not a valid name of a topic, namespace, tenant, cluster or bundle
│   └── UnservedDomainError   a scalable topic of Pulsar 5, or a segment of one
├── InvalidBundlesError   boundaries or a number of bundles that are not valid for a namespace
├── UnknownBundleError    a range that is not a bundle of the namespace now
└── InvalidSplitError     a bundle that cannot be split in this way
"""

from typing import Final

_MAX_SHOWN_CHARACTERS: Final = 300


class InvalidNameError(ValueError):
    """A name does not have the required form; `detail` says what is wrong with it. The message shows only the beginning
    of a long name.
    """

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(
            f"{detail}: {name!r}"
            if len(name) <= _MAX_SHOWN_CHARACTERS
            else f"{detail}: {name[:_MAX_SHOWN_CHARACTERS]!r}…"
        )
        self.name = name
        self.detail = detail


class UnservedDomainError(InvalidNameError):
    """A name is that of a scalable topic of Pulsar 5 (`topic://`), or of a segment of such a topic (`segment://`);
    brokers do not serve it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            name, "Scalable topics are not served by this cluster: use a topic whose name begins with persistent://"
        )


class InvalidBundlesError(ValueError):
    pass


class UnknownBundleError(ValueError):
    def __init__(self, namespace: object, bundle_range: object) -> None:
        super().__init__(f"Bundle {bundle_range} is not a bundle of namespace {namespace}")
        self.namespace = namespace
        self.range = bundle_range


class InvalidSplitError(ValueError):
    def __init__(self, bundle: object, detail: str) -> None:
        super().__init__(f"Bundle {bundle} cannot be split: {detail}")
        self.bundle = bundle
        self.detail = detail

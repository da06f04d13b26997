"""Errors of names and bundles, all of them ValueErrors.

ValueError
├── InvalidNameError      a topic, namespace, tenant, cluster or bundle name that cannot be one
├── InvalidBundlesError   boundaries or a number of bundles that do not make a namespace
├── UnknownBundleError    a range that is no bundle of the namespace as it is now
└── InvalidSplitError     a bundle that cannot be split this way
"""

from typing import Final

_SHOWN: Final = 300


class InvalidNameError(ValueError):
    """`name` is not of the form it should have; `detail` says which. The text shows the beginning of a long name."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{detail}: {name!r}" if len(name) <= _SHOWN else f"{detail}: {name[:_SHOWN]!r}…")
        self.name = name
        self.detail = detail


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

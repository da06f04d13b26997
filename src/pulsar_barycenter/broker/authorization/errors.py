"""The errors of a refused request. Their text tells the client nothing that it did not send itself.

AccessError
├── NotAuthenticatedError   the client did not authenticate; HTTP 401
└── AccessDeniedError       the client lacks a right; HTTP 403

Both are AuthorizationError in the binary protocol.
"""

from pulsar_barycenter.broker.authorization.needs import Need


class AccessError(Exception):
    """A request that is not allowed."""


class NotAuthenticatedError(AccessError):
    def __init__(self) -> None:
        super().__init__("Need to authenticate to perform the request: bring credentials, such as a token")


class AccessDeniedError(AccessError):
    def __init__(self, need: Need) -> None:
        super().__init__(f"Client is not authorized to {need}")

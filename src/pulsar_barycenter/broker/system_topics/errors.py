"""The errors of the client of system topics.

SystemTopicError
├── UnreachableError             no broker serves the topics now, or the connection to it was lost or refused
├── RefusedError                 the broker refused a request, or a message
├── UnreadableEntryError         this client cannot read an entry; it is logged once and skipped
├── NotCaughtUpError             a table view did not catch up in time
├── ClosedError                  the publisher, reader or view is closed
├── MessageTooLargeError         a key or a value is longer than the limit
└── NoReceiptError               no receipt in time, or before the publisher was closed
    ├── NotPublishedError        the message was not sent: it will never be stored
    └── PublishOutcomeUnknownError  the message was sent: it may be stored, now or later, or lost
"""

from pulsar_barycenter.protocol import pulsar_api_pb2 as api


class SystemTopicError(Exception):
    pass


class UnreachableError(SystemTopicError):
    pass


class RefusedError(SystemTopicError):
    def __init__(self, code: int, text: str) -> None:
        known = code in api.ServerError.values()
        name = api.ServerError.Name(code) if known else str(code)  # type: ignore[arg-type]
        super().__init__(f"{name}: {text}")
        self.code = code


class UnreadableEntryError(SystemTopicError):
    pass


class NotCaughtUpError(SystemTopicError):
    def __init__(self, topic: str, timeout_s: float) -> None:
        super().__init__(f"the messages of {topic} did not arrive within {timeout_s} s")
        self.topic = topic


class ClosedError(SystemTopicError):
    pass


class MessageTooLargeError(SystemTopicError):
    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"the {what} has {size} bytes: the limit is {limit}")
        self.size = size
        self.limit = limit


class NoReceiptError(SystemTopicError):
    def __init__(self, topic: str, key: str, why: str) -> None:
        super().__init__(f"no receipt for key {key!r} from {topic}: {why}")
        self.topic = topic
        self.key = key


class NotPublishedError(NoReceiptError):
    """Raised by `Publisher.publish`: the message was never sent, and will not be sent."""


class PublishOutcomeUnknownError(NoReceiptError):
    """Raised by `Publisher.publish`: the message was sent at least once, but no receipt came in time.

    The message may be stored already, may be stored later because a connection delivers it late, or may be lost. After
    this error the publisher does not send it again.
    """

"""Errors of the binary protocol, one shallow tree.

ProtocolError
├── LocalProtocolError          this side was about to say what is not legal now: a bug of ours
└── RemoteProtocolError         the peer broke the protocol; the connection is to be closed, except where said
    ├── FrameTooLargeError      it announced a frame beyond the limit
    ├── MalformedFrameError     the sizes inside a frame contradict each other
    ├── MalformedCommandError   a command does not parse or lacks a required field
    ├── UnsupportedCommandError a command type that nobody defined, or that this role never receives
    └── ChecksumMismatchError   an entry is damaged; the connection may go on, that one message fails
"""


class ProtocolError(Exception):
    """Anything that goes wrong between the bytes of a connection and its commands."""


class LocalProtocolError(ProtocolError):
    pass


class RemoteProtocolError(ProtocolError):
    pass


class FrameTooLargeError(RemoteProtocolError):
    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"the peer announced a frame of {size} bytes; at most {limit} are accepted")
        self.size = size
        self.limit = limit


class MalformedFrameError(RemoteProtocolError):
    pass


class MalformedCommandError(RemoteProtocolError):
    pass


class UnsupportedCommandError(RemoteProtocolError):
    def __init__(self, command_type: int) -> None:
        super().__init__(f"command type {command_type} is not supported here")
        self.command_type = command_type


class ChecksumMismatchError(RemoteProtocolError):
    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"the entry carries CRC32C {expected:#010x}, its bytes have {actual:#010x}")
        self.expected = expected
        self.actual = actual

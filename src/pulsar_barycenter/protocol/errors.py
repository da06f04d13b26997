"""Errors of the binary protocol, one shallow tree.

ProtocolError
├── LocalProtocolError          this side tried to send a command that is not legal now: a bug in this code
└── RemoteProtocolError         the peer broke the protocol; close the connection, unless stated otherwise
    ├── FrameTooLargeError      the peer announced a frame beyond the limit
    ├── MalformedFrameError     the sizes inside a frame contradict each other
    ├── MalformedCommandError   a command cannot be parsed or lacks a required field
    ├── UnsupportedCommandError a command type that is not defined, or that this role never receives
    └── ChecksumMismatchError   an entry is damaged; that one message fails, the connection may continue
"""


class ProtocolError(Exception):
    """Base class of the errors that the parsing of received bytes, or the sending of a command, can raise."""


class LocalProtocolError(ProtocolError):
    pass


class RemoteProtocolError(ProtocolError):
    pass


class FrameTooLargeError(RemoteProtocolError):
    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"the peer announced a frame of {size} bytes; the limit is {limit}")
        self.size = size
        self.limit = limit


class MalformedFrameError(RemoteProtocolError):
    pass


class MalformedCommandError(RemoteProtocolError):
    pass


class UnsupportedCommandError(RemoteProtocolError):
    def __init__(self, command_type: int) -> None:
        super().__init__(f"command type {command_type} is not supported in this direction")
        self.command_type = command_type


class ChecksumMismatchError(RemoteProtocolError):
    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"the entry has the checksum {expected:#010x} (CRC32C), its bytes have {actual:#010x}")
        self.expected = expected
        self.actual = actual

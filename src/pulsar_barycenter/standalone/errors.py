"""Errors at the start of a cluster on one machine.

StandaloneError
├── DataDirectoryBusyError   another cluster runs on the same folder
├── DataDirectoryUnusableError  the folder cannot be made or written
├── NoLockFileError          a link or a foreign file is where the folder's lock should be
├── PortInUseError           a port that a broker needs is taken
├── PortRangeError           the ports counted up from the given ones overlap or do not exist
├── SharedPortError          the configuration of all brokers names a port that only one of them can have
├── NotReadyError            a broker or the pipeline was not ready in time, and was ended
└── ProcessFailedError       a broker or the pipeline ended before it was ready
"""

from pathlib import Path


class StandaloneError(Exception):
    """A cluster could not be started; the text says what to do.

    >>> from pulsar_barycenter.testing import Cluster
    >>> with Cluster(in_process=True) as cluster:
    ...     try:
    ...         Cluster(in_process=True, data=cluster.data).start()
    ...     except StandaloneError as error:
    ...         print(type(error).__name__)
    DataDirectoryBusyError
    """


class DataDirectoryBusyError(StandaloneError):
    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(
            f"{path} is in use by another cluster (process {holder}). Stop that one, or give another --data."
        )


class DataDirectoryUnusableError(StandaloneError):
    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be used: {error.strerror}. Give another --data, or correct its permissions.")


class NoLockFileError(StandaloneError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is a link or another file, not the lock of a data folder. Move it away.")


class PortRangeError(StandaloneError):
    def __init__(self, brokers: int, web_port: int, broker_port: int) -> None:
        given = {"--web-port": web_port, "--broker-port": broker_port}
        counted = {option: port for option, port in given.items() if port}  # 0 means that the system chooses free ports
        needed = " and ".join(
            f"{port} to {port + brokers - 1}" if brokers > 1 else f"{port}" for port in counted.values()
        )
        who = "a broker needs" if brokers == 1 else f"{brokers} brokers need"
        super().__init__(
            f"{who} ports {needed}: they must not overlap or exceed 65535. Choose another {' and '.join(counted)}."
        )


class SharedPortError(StandaloneError):
    def __init__(self, key: str, port: str, brokers: int) -> None:
        super().__init__(
            f"{key}={port} is one port for {brokers} brokers on one machine. Give --brokers 1, or run each broker with "
            "`barycenter broker` and its own broker.conf."
        )


class PortInUseError(StandaloneError):
    def __init__(self, address: str, port: int, option: str) -> None:
        super().__init__(
            f"{address}:{port} is in use. Stop the process that listens there, or choose other ports with {option}."
        )
        self.port = port


class NotReadyError(StandaloneError):
    def __init__(self, name: str, timeout_s: float, log: Path, last_lines: str) -> None:
        super().__init__(
            f"{name} was not ready within {timeout_s:g} s, and was ended. The machine may be too busy; its log is {log}"
            f"{':' if last_lines else ', and is empty'}\n{last_lines}".rstrip("\n")
        )


class ProcessFailedError(StandaloneError):
    def __init__(self, name: str, exit_code: int | None, log: Path, last_lines: str) -> None:
        super().__init__(f"{name} ended with code {exit_code} before it was ready; its log is {log}:\n{last_lines}")

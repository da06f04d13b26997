"""How the start of a cluster is shown: which part does what, and when it is done."""

from typing import Protocol


class StartProgress(Protocol):
    """Takes in what happens as it happens. `name` is a part: `broker-0`, `pipeline`; the texts are a few words."""

    def phase(self, name: str, doing: str) -> None:
        """`name` begins to do something that takes time."""
        ...

    def done(self, name: str, result: str) -> None:
        """`name` has come to the end of its phases, well or not."""
        ...

    def event(self, text: str) -> None:
        """Something happened to the cluster later: a sentence."""
        ...


class SilentProgress:
    """Shows nothing."""

    def phase(self, name: str, doing: str) -> None:
        pass

    def done(self, name: str, result: str) -> None:
        pass

    def event(self, text: str) -> None:
        pass

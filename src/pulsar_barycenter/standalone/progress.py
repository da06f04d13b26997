"""The interface that shows the start of a cluster: the steps of each part, and their results."""

from typing import Protocol


class StartProgress(Protocol):
    """Receives the steps of a cluster's start as they happen. `name` is the part of the cluster (`broker-0`,
    `pipeline`) to which the step belongs; the texts are short.
    """

    def phase(self, name: str, doing: str) -> None:
        """Show that `name` has begun a step that takes time; `doing` says what it does."""
        ...

    def done(self, name: str, result: str) -> None:
        """Show that `name` has ended its steps, with success or not; `result` says which."""
        ...

    def event(self, text: str) -> None:
        """Show an event that comes after the start, such as a restart; `text` is a sentence."""
        ...


class SilentProgress:
    """A `StartProgress` that shows nothing."""

    def phase(self, name: str, doing: str) -> None:
        pass

    def done(self, name: str, result: str) -> None:
        pass

    def event(self, text: str) -> None:
        pass

"""Limits the work that one comparison of schemas may cost: clients could send schemas that make it exponential."""

from pulsar_barycenter.broker.schemas.bounds import MAX_NESTED_PAIRS, MAX_STEPS


class TooComplexError(Exception):
    """Raised when the comparison of two schemas would take more than MAX_STEPS steps or MAX_NESTED_PAIRS levels."""


class Budget:
    def __init__(self) -> None:
        self._left = MAX_STEPS

    def spend(self, steps: int, depth: int) -> None:
        """Add `steps` to the steps counted for this comparison. `depth` is the depth of nesting that the comparison has
        reached.

        Raises:
            TooComplexError: there are more than MAX_STEPS steps, or `depth` exceeds MAX_NESTED_PAIRS.
        """
        self._left -= steps
        if self._left < 0 or depth > MAX_NESTED_PAIRS:
            raise TooComplexError

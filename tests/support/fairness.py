"""Consumers as the choices by name and priority see them."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

consumer_name = st.text("abcdefgh0123456789-", min_size=1, max_size=12)


@dataclass(frozen=True, eq=False)
class Candidate:
    """See `sticky_keys.Candidate`. Two consumers with one name are different."""

    name: str
    priority_level: int = 0
    hash_ranges: Sequence[tuple[int, int]] = ()

"""Many draws at once, the same as one after the other.

`random.Random` takes 32 bits of its generator a word, and `getrandbits` of many words are the words that as many
single calls would have got, the first one lowest.
"""

import random

import numpy as np
from numpy.typing import NDArray

from barycenter.load.snapshot.load_snapshot import Integers


def _words(rng: random.Random, count: int) -> NDArray[np.uint32]:
    return np.frombuffer(rng.getrandbits(32 * count).to_bytes(4 * count, "little"), "<u4")


def draws(rng: random.Random, below: int, count: int) -> Integers:
    """Return what `count` calls of `rng.randrange(below)` return, and leave `rng` as they do; `below` is at most 2^32.

    As there, a number of as many bits as `below` has is drawn until one is small enough.
    """
    bits = below.bit_length()
    words = 2 if bits > 32 else 1
    found = np.zeros(0, np.int64)
    while len(found) < count:
        # as many as are missing at least, so the last one drawn is one that counts
        drawn = _words(rng, words * (count - len(found))).reshape(-1, words).astype(np.int64)
        number = drawn[:, 0] | (drawn[:, 1] >> 64 - bits << 32) if words == 2 else drawn[:, 0] >> 32 - bits
        found = np.concatenate((found, number[number < below]))
    return found

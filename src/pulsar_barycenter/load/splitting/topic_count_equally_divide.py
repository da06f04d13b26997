"""topic_count_equally_divide: split so that both parts have the same number of topics.

Worked example: hashes 0, 5, 0x10, 0x15, 0x20, 0x25 are split at 0x10 + (0x15 - 0x10) / 2 = 0x12.

When to use it: few topics, or hashes that are close together, if the topics have similar loads. When not: one topic has
most of the traffic; its part then stays as hot as the whole bundle was.

Source: Pulsar's `TopicCountEquallyDivideBundleSplitAlgorithm`.
"""

from typing import Final

from pulsar_barycenter.load.splitting.request import SplitRequest

NAME: Final = "topic_count_equally_divide"


def topic_count_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """Return one hash at which to split the bundle, between the two topics in the middle (in the order of their
    hashes), so that both parts have about equally many topics; no hash if there are fewer than two topics.
    """
    hashes = sorted(request.hashes)
    if len(hashes) <= 1:
        return ()
    half = len(hashes) // 2
    left, right = hashes[max(half - 1, 0)], hashes[half]
    return (left + (right - left) // 2,)

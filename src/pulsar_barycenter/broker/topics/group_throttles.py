"""The rates of resource groups on one broker: all topics of a group share one throttle.

A group is a name that namespaces refer to. Each broker by itself may accept messages at the rate of the group: brokers
do not report to each other what they accepted. Source: Pulsar's `ResourceGroupService`, `ResourceGroupPublishLimiter`.
Pulsar's brokers do not report it either, unless `resourceUsageTransportClassName` is set; by default it is not.
"""

import asyncio
from typing import Final

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.bounds.token_bucket import SharedThrottle, Throttle
from pulsar_barycenter.broker.namespaces.topic_rules import GroupRate

MOST_GROUPS: Final = 10_000
"""The maximum number of groups whose throttles are kept. If there are more, the throttle that was created or changed
longest ago is removed: topics that have it keep it, and topics of its group that are loaded later share a new one.
"""
_PERIOD_S: Final = 1.0


class GroupThrottles:
    """The throttles of resource groups, by the name of the group: one throttle for all topics of a group on this
    broker.
    """

    def __init__(self) -> None:
        self._kept: Recent[str, tuple[GroupRate, SharedThrottle]] = Recent(MOST_GROUPS)

    def of(self, rate: GroupRate) -> Throttle | None:
        """Return the throttle that the topics of a resource group share, None if `rate` sets no limit.

        If the group's throttle has another rate than `rate`, this method changes that throttle, and so the limit of all
        topics that share it.
        """
        if not rate.is_limit:
            return None
        kept = self._kept.get(rate.group)
        if kept is not None and kept[0] == rate:
            return kept[1]
        now_s = asyncio.get_running_loop().time()
        if kept is None:
            throttle = SharedThrottle(rate.messages, rate.size, _PERIOD_S, now_s)
        else:
            throttle = kept[1]
            throttle.limit_to(rate.messages, rate.size, _PERIOD_S, now_s)
        self._kept.put(rate.group, (rate, throttle))
        return throttle

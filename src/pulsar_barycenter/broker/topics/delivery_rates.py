"""The throttles of deliveries that policies demand. Pure: the time is an argument.

Source: Pulsar's `DispatchRateLimiter`.
"""

from pulsar_barycenter.bounds.token_bucket import Throttle
from pulsar_barycenter.broker.namespaces.policies import DispatchRate
from pulsar_barycenter.broker.namespaces.topic_rules import TopicRules


def throttle_for(rate: DispatchRate, inbound_messages: float, inbound_bytes: float, now_s: float) -> Throttle | None:
    """Return a new throttle for a rate of deliveries, full at `now_s`; None if the rate sets no limit.

    `inbound_messages` (msg/s) and `inbound_bytes` (bytes/s) are the present rates at which messages arrive at the
    topic. If the rate of deliveries is relative to the publish rate, they are added to its limits.
    """
    messages, size = rate.dispatch_throttling_rate_in_msg, rate.dispatch_throttling_rate_in_byte
    if messages <= 0 and size <= 0:
        return None
    period_s = max(rate.rate_period_in_second, 1)
    if rate.relative_to_publish_rate:
        messages = messages + round(inbound_messages * period_s) if messages > 0 else messages
        size = size + round(inbound_bytes * period_s) if size > 0 else size
    return Throttle(messages, size, period_s, now_s)


def has_relative_rate(rules: TopicRules) -> bool:
    """Return whether at least one rate of deliveries is relative to the publish rate, so that throttles have to be made
    again whenever the rates at which messages arrive are measured.
    """
    of_subscriptions = (rate for _, rate in rules.subscription_rates)
    rates = (rules.dispatch_rate, rules.subscription_dispatch_rate, *of_subscriptions)
    return any(rate.relative_to_publish_rate for rate in rates)

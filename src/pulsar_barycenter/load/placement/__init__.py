"""Which of the allowed brokers owns a bundle: the placement strategies.

Filters decide which brokers may own a bundle, placement chooses one of them. Many bundles are often placed within a
second, between two load reports, so a strategy must count what it has placed itself, or choose at random. A choice
must be fast; the numbers of its reason are computed only when the reason is read.

Start with `placer`, the contract of a strategy. `avg_shedder`, the default, follows the plan of the shedder of the same
name (`avg_shedder_pins` as in Pulsar 4.x). `least_long_term_message_rate`, the default of Pulsar 4.x, keeps brokers
sorted in `score_order`. `least_resource_usage_with_weight` (modular) and `least_resource_usage_with_weight_extensible`
share the random choice of `below_average`. `round_robin_broker_selector` takes brokers in turn, and `least_disturbance`
follows the plan of the shedder of the same name.

`fewest_bundles` is no strategy that a configuration can name: a broker without numpy places by it.

The simple load manager places by `simple.placement`.
"""

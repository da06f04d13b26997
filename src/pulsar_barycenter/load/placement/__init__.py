"""Who shall own a bundle, of those that may: the placement strategies.

Read `placer`, what a strategy is asked and answers, then `avg_shedder`, the default, which goes where the shedder of
that name meant to (`avg_shedder_pins`, as in 4.x). `least_long_term_message_rate`, the default of Pulsar 4.x, keeps
brokers in `score_order`. `least_resource_usage_with_weight` (the modular one) and
`least_resource_usage_with_weight_extensible` share the draw of `below_average`. `round_robin_broker_selector` goes in
turn, and `least_disturbance` by the plan of the shedder of that name.

Who may own it is for `filters`; the simple load manager places by `simple.placement`.
"""

"""Who shall own a bundle, of those that may: the placement strategies.

Read `placer`, what a strategy is asked and answers, then `avg_shedder`, the default, and
`least_long_term_message_rate`, that of Pulsar 4.x.
`least_resource_usage_with_weight` (the modular one) and `least_resource_usage_with_weight_extensible` share the draw of
`below_average`; `avg_shedder` goes where the shedder of that name meant to (`avg_shedder_pins`, as in 4.x),
`round_robin_broker_selector` in turn.

Who may own it is for `filters`; the simple load manager places by `simple.placement`.
"""

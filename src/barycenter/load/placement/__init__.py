"""Who shall own a bundle, of those that may: the placement strategies.

Read `placer`, what a strategy is asked and answers, then `least_long_term_message_rate`, the default.
`least_resource_usage_with_weight` (the modular one) and `least_resource_usage_with_weight_extensible` share the draw of
`below_average`; `avg_shedder` goes where the shedder of that name meant to, `round_robin_broker_selector` in turn.

Who may own it is for `filters`; the simple load manager places by `simple.placement`.
"""

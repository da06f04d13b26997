"""Which brokers may own a bundle: each filter removes candidates, and gives the reason for each.

Some rules must hold whatever the load is: policies, limits, versions during an upgrade. Each is a filter that takes
flags over the brokers and clears some of them, so that filters can be combined in any order and never bring a broker
back. `placement` then chooses the best of the brokers that are left; `selection` combines the two.

Start with `outcome`, the contract of a filter, and `namespace_policies`, with which every selection begins. The others
are in the order of the modular load manager: `max_topics`, `anti_affinity`, `even_distribution`, `load_manager_class`,
`broker_version`. `extensible_filters` has the order of the extensible load manager, and the transfers that it allows.
"""

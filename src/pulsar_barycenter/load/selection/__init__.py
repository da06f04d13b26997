"""Which broker owns a bundle: policies and filters first, then the placement strategy.

The two load managers combine the same filters and strategies differently. With the modular one
(`modular_selection`) brokers that filters removed come back if none is left, and an overloaded choice is repeated; with
the extensible one (`extensible_selection`) a bundle may stay without an owner. `selection_reason` builds the reason of
a choice. `unload_veto` decides whether policies let a bundle leave its broker at all.

`rounds` places the bundles of a round one after the other, so that each counts for the next.
"""

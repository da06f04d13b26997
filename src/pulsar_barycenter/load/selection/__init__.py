"""Which broker shall own a bundle: filters and placement strategy in a row.

`modular_selection` is the modular load manager's way, with a second choice when the first is overloaded,
`extensible_selection` the other's. `selection_reason` says why it ended as it did, `unload_veto` whether policies let
a bundle leave at all.

One bundle after the other, each counting for the next, is for `cycle`.
"""

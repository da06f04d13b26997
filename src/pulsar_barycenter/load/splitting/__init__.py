"""Which bundles are too large, and at which hashes they are split.

A bundle is the smallest unit that can move. If one becomes so large that no broker can take it, shedding cannot balance
the cluster any more, so such bundles are split. There are two decisions: which bundles exceed a limit (a strategy), and
at which hash to split one (an algorithm). A strategy must not fill a namespace with bundles, so it counts its splits.

Start with `splitter`, the contract of a split strategy, and `split_plan`, its answer and the limits. `bundle_splitter`
is for the leader of the modular load manager (and, with other values, for `load.simple`), `default_split_strategy` for
each broker of the extensible one.

There is one file for each algorithm, named as in `defaultNamespaceBundleSplitAlgorithm`: `range_equally_divide`,
`topic_count_equally_divide`, `flow_or_qps_equally_divide` and `specified_positions_divide`. They share `request`.
`algorithms` finds them by name and needs no numpy.

Data of the metadata store, such as the number of bundles of a namespace, are arguments. The owner of a bundle carries
out the split, and `naming` has the arithmetic of hash ranges.
"""

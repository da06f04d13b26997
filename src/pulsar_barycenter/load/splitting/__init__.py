"""Which bundles are too large, and at which hashes they are cut.

Read `splitter`, what a split strategy is asked, and `split_plan`, what it answers. There are two: `bundle_splitter` for
the leader of the modular load manager (and, on other figures, for `load.simple`), which also defines what too large is,
and `default_split_strategy` for each broker of the extensible one, built upon it.

Where a bundle is cut is one algorithm a file, named as `defaultNamespaceBundleSplitAlgorithm` names it, over the
`request` that they share: `range_equally_divide`, `topic_count_equally_divide`, `flow_or_qps_equally_divide` and
`specified_positions_divide`. `algorithms` finds them by name and needs no numpy.

What is asked of the metadata store, such as how many bundles a namespace has, is an argument; splitting itself is the
owner's work, and the arithmetic of ranges is that of `naming`.
"""

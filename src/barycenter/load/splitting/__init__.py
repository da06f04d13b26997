"""Which bundles are too large, and at which hashes they are cut.

The first question has two answers: `bundle_splitter` for the leader of the modular load manager (and, on other figures,
for `load.simple`), which also defines what too large is, and `default_split_strategy` for each broker of the extensible
one, built upon it. The second has one algorithm a file, named as `defaultNamespaceBundleSplitAlgorithm` names it, over
the `request` that they share; `algorithms` finds them by name and needs no numpy.

What is asked of the metadata store, such as how many bundles a namespace has, is an argument; splitting itself is the
owner's work, and the arithmetic of ranges is that of `naming`.
"""

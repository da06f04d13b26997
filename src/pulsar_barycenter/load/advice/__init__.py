"""Advice on a load-balancing configuration: what is wrong in it, or probably not intended.

Many settings depend on one another, and most wrong combinations raise no error: they just never move a bundle, or move
bundles without end. These can be found from the keys alone. A broker logs the advice at its start and after each
dynamic change, and `barycenter decide` prints it.

`configuration_advice` evaluates the rules. `facts` has what rules read and how advice is formed; `rules` and
`shedding_rules` (by shedder) are the rules.
"""

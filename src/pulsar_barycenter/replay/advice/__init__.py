"""Which load manager, strategy and settings a cluster's history speaks for, with the evidence; docs/advise.md.

`parts` cuts a history into what is used for choosing and what is held out, and measures a run on each. `weighing` is
the rule: what a configuration costs, and when one is better than another by more than noise. `settings` has what is
worth trying, `search` says what to run next and what is advised, `document` what is told of it, `verdict` tells it.
`changes` makes of it what brokers are given. What no balancing can mend is a `finding`: `topics_and_bundles` and
`brokers` look for them.

Pure: whoever has `search` ask for runs makes them.
"""

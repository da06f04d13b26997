"""Who may own a bundle: each filter removes candidates, and says of each one why.

Read `outcome`, what a filter is asked and answers, then `namespace_policies`, from which every selection starts, and
the others in the order in which the modular load manager asks them: `max_topics`, `anti_affinity`,
`even_distribution`, `load_manager_class`, `broker_version`. `extensible_filters` is the extensible load manager's row
of them, and which transfers they allow.

Who of those left is best is for `placement`; both stand in a row in `selection`.
"""

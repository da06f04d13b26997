"""What is wrong, or probably not meant, in a load-balancing configuration.

`configuration_advice` asks the rules; `facts` is what they look at and how they speak, `rules` and `shedding_rules`
are the rules, those about shedding by shedder. Told at the start of a broker, after each dynamic change, and by
`barycenter decide`.
"""

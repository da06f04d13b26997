"""A cluster in virtual time: what any load manager would have done with a recorded or made-up load, and how well.

`demand` is what clients ask of each bundle over time, `capacity` what a broker can carry and how traffic becomes usage,
`events` what happens to brokers and settings. `bundles` knows who owns what and how bundles split, `reports` what
brokers told of it and when, as the snapshot that a leader decides upon. `simulator` runs them; its rounds are those of
`load.rounds`, its splits those of `load.splitting`. `outcome` is what is kept of a run, `measures` how well it went,
and `references` how well it could have gone, for one who sees what no leader sees.

`synthetic` makes load of a seed. `traces` are counts of events read from CSV files; `inputs` make demand of them, and a
cluster, too, of what the pipeline kept. `grid` spells out the runs that a person asks for.
`what_if` goes on from a snapshot. `scenario` says what a case of `balance-bench` is, `scenarios` has them, one file
each. `experiments` are what others
measured and published, `advice` chooses by a history.

Pure: time, randomness and inputs are arguments, and the same arguments give the same bytes.
"""

"""`barycenter replay`, `balance-bench` and `plan`: what would balance best, tried on recorded or made-up load.

`command` is `replay`. `asked` has the options that it and `advise` have alike, `inputs` reads what is replayed,
`shared_input` has it in memory once for many `processes`, `running` runs a grid on them and keeps what is done,
`spark_grid` runs it on Spark. `series` is what is kept of every step, `board` has medians by strategy and setting,
`results` writes and shows them, `report` makes a page of them. `bench`, `bench_page` and `published_page` run and tell
scenarios and published experiments; `plan` goes on from a snapshot.

The cluster in virtual time, and what is measured of it, are `pulsar_barycenter.replay`.
"""

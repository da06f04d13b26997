"""`barycenter replay`, `balance-bench` and `plan`: what would balance best, tried on recorded or made-up load.

`inputs` reads what is replayed, `running` runs a grid on processes and keeps what is done, `series` is what it keeps of
every step, `board` has medians by strategy and setting, `results` writes and shows them, `report` makes a page of them;
`bench` and `bench_page` run and tell the scenarios.
"""

"""`barycenter replay`, `balance-bench` and `plan`: what would balance best, tried on recorded or made-up load.

`inputs` reads what is replayed, `running` runs a grid on processes and keeps what is done, `results` writes and shows
what came out; `bench` and `bench_page` run and tell the scenarios.
"""

"""`barycenter replay` and `barycenter balance-bench`: what would balance best, tried on recorded or made-up load.

`inputs` reads what is replayed, `shared_input` has it in memory once for many processes, `running` runs a grid on them
and keeps what is done, `spark_grid` runs it on Spark, `results` writes and shows what came out; `bench` and
`bench_page` run and tell the scenarios.
"""

"""Folds reports into windows (averages), ownership and balance: pure functions, without Spark, files or a clock.

- `live_windows` computes the averages of bundles and brokers after one more batch.
- `bundle_rows` keeps the windows of all bundles; a batch changes some of them in place.
- `ownership` defines intervals of ownership; `owners` derives them from reports.
- `broker_sums` keeps the averages of all brokers; a batch changes some of them.
- `balance` computes how evenly brokers were loaded.
- `stretches` computes the windows of long histories, piece by piece.

`load.reports.windows` defines the average itself. `stream` passes the state from batch to batch, `batch` folds whole
histories.
"""

"""What feeds a `WatchedCluster`: `data_folder` reads recorded load, `live` asks the brokers. Neither changes a cluster.

`source` is what both have in common, `error` their error.
"""

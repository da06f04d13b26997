"""Converts recorded load to demand: `trace_demand` converts traces, `workload_files` files of the OpenMessaging
benchmark, and `recorded` the pipeline's tables, which also describe the cluster.
"""

"""Where demand comes from if it is not synthetic: `trace_demand` makes it of traces, `workload_files` of files of the
OpenMessaging benchmark, `recorded` of the pipeline's tables, with a cluster.
"""

"""Where demand comes from: `generated` from a seed, `csv_traces` and `workload_files` from files, `recorded` from the
pipeline's tables, with a cluster.
"""

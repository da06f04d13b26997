"""`barycenter history`: queries the recorded history of a cluster.

`command` has one subcommand for each query. `pipeline.history` runs the queries, most of them without Spark;
`questions.history_rows` formats the results.
"""

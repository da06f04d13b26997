"""`barycenter history`: `command` has a question to each of its commands; `questions.history_rows` prints the answers.

The questions themselves are `pipeline.history`; most are answered without Spark.
"""

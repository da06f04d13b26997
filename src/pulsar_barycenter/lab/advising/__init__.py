"""What `advise` does with a history: runs are made, weighed by `replay.advice`, and told.

`advise` asks the question and writes the answer, `trying` makes the runs that `replay.advice` asks for, `reality` reads
what the history itself shows, and `board` prints the advice.
"""

"""What `advise` does with a history: it makes runs, has `replay.advice` weigh them, and prints the advice.

`advise` asks the question and writes the answer, `trying` makes the runs that `replay.advice` asks for, `reality` reads
what the history itself shows, and `board` prints the advice.
"""

"""Runs the replays for a recommendation (`barycenter advise`), and prints and writes it.

`advise` prepares the input and writes the files; `trying` runs the replays that `replay.advice` selects; `reality`
reads the recorded moves and balance of the history; `board` prints the recommendation.
"""

"""One place of ownership records is the truth, and a live cluster goes from one place to the other.

`place` is the key of the metadata store that says which place it is, and where its readers say that they stand still.
`following_records` are the records wherever that key says they are. `syncer` is the leader's part: it copies the
records to the other place, and changes the key.
"""

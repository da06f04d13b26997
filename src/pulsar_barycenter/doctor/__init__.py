"""What is wrong with a cluster, running or stopped, and what to do about it.

`reading` asks every broker and opens the metadata store, and makes one plain `picture` of what they say. `checks` are
functions from a picture to `finding`s; they read nothing themselves. `catalogue` lists them and runs them: a new check
is one function and one row there, and a section of docs/doctor.md.

Nothing here changes a cluster. What could not be looked at is told, and is no sign of health.
"""

"""The deletion of a tenant's data from a data directory: tables, logs, archive, quarantine, states and publication.

The difficulty is that a kill at any moment must lose nothing of other tenants, and that the states remember how far the
decision logs were read, in bytes of files that the deletion rewrites. So the work has steps, each of which can be done
again (see `tenant`), and a marker keeps the pipeline from starting until all are done (see `marker`).

`names` decides which text names the tenant; `tables`, `text_files` and `states` take it out of each kind of file.
"""

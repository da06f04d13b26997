"""Deletes a tenant's data from a data directory: tables, logs, archive, quarantine, states and publication.

Problem. A kill at any moment must lose no data of other tenants. And the states have byte offsets into the decision
logs, which the deletion rewrites. Rule: each step can run again, and a marker keeps the pipeline from starting until
all steps are done.

- `tenant` runs the steps.
- `marker` has the marker of an unfinished deletion.
- `names` decides which texts contain the tenant's name.
- `tables`, `text_files` and `states` delete the tenant from each kind of file.
"""

"""What `balance-bench` runs, and the pages that it writes.

`bench` runs strategies in scenarios and in published experiments, on the processors of this machine. `front` has one
strategy at several settings, to hold balance against disturbance, and `traced` makes a scenario of traces. `bench_page`
shows the scenarios, `published_page` the experiments beside what was published: each on the terminal and as Markdown.
"""

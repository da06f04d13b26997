"""What `balance-bench` runs, and the pages that it writes.

`bench` runs strategies in scenarios and in published experiments, on the processors of this machine. `bench_page` shows
the scenarios, `published_page` the experiments beside what was published: each on the terminal and as Markdown.
"""

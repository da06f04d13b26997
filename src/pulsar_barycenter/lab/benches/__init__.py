"""Runs `balance-bench`, and writes its pages.

`bench` runs strategies in scenarios and published experiments, on the processors of this machine. `front` runs one
strategy with several settings, to compare balance with disturbance. `file_bench` runs scenarios from files and compares
them with what these expect. `traced` builds a scenario from traces.
`bench_page` formats the results of scenarios, `published_page` those of experiments next to the published values; both
as tables on the terminal and as Markdown.
"""

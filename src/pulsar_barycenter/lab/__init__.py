"""Runs replays on many processors: reads the input, starts processes or Spark, and writes results and reports.

The simulation, its measures and the recommendation are in `replay`, which is pure. This package does the input and
output around it; `cli` has the options.

- Input: `inputs` reads a data folder, traces, a workload file or a seed; `trace_files` finds CSV files.
- Runs: `running` runs a grid, with one file for each completed run, so that an interrupted grid can continue.
  `processes` starts the processes, `shared_input` gives them one copy of the input in memory, `spark_grid` runs the
  grid on Spark instead.
- Results: `series` has the values of each step of a run, `board` the medians by strategy and settings; `results` writes
  and prints them; `report` writes an HTML page.
- `programs` has all of this for programs and notebooks, which `pulsar_barycenter.replay` exports.
- `benches` runs scenarios and published experiments; `advising` runs the replays of a recommendation.
"""

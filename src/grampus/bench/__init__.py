"""Benchmarks: how fast a database or a cluster is, and why.

- A suite is data (`suites/*.yaml`). `matrix/` expands it to cells, `trials/` runs them in rounds,
  `environments/` makes what they run on, `drivers/` reads what load generators print,
  `statistics/` and `findings/` reach verdicts. `quick` (`runner.py`) and `paths/` are older
  engines.
- `sampler.py` and `layers/` observe every layer on one clock.

Failure and recovery: a run without `run.json` did not finish. A matrix run keeps one durable line
for each trial, so a killed run is resumed. What a benchmark makes is recorded first and removed
by that record alone (`bench tidy`).
"""

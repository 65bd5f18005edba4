"""What Grampus remembers, in one SQLite file and files beside it under GRAMPUS_HOME.

- `Store` (`store.py`, `schema.py`) keeps records by kind, lab and name; `OperationJournal`
  (`operations.py`) keeps operations and applies their steps; `history.py` and `retention.py` read
  and prune them.
- `locks.py`: locks that the kernel frees with their process. `generation.py`: whether this state
  is the newest. `keys.py`: master keys. `home_space.py`: a reserve for what is under way.
  `log_file.py`: the log. `matrix_archive.py` and `runs.py`: archived benchmarks.

Failure and recovery: each change is one transaction. A state that is older than what the cluster
has noted finishes and undoes nothing before it is corrected.
"""

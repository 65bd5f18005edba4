"""What everything else uses and what uses nothing of ours: errors, names, units, clock, progress.

- `GrampusError` and its classes (`errors.py`) carry what is wrong, what to do and a stable code;
  the class decides the exit code. `Planned` ends a dry run.
- `Clock` and `Progress` are ports, so that waiting and reporting can be tested.
- `failpoints.py` stops a process at a named place; `processes.py` knows a process for certain.
"""

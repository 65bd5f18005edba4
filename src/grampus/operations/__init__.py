"""Operations: changes in several steps that survive a stop at any step.

- A kind of operation is an `OperationType` (`kinds.py`): its document, its steps, and what becomes
  of one whose process ends before it does. Volumes and databases add to it what they need.
- `OperationRunner` (`runner.py`) is the only one that begins operations: it journals, applies,
  undoes and recovers them. In a dry run it raises `Planned` with the steps instead.
- `state/operations.py` keeps the journal and applies steps one by one.

Failure and recovery: a failed operation is undone, or stays for the next command, as its kind says.
Whoever holds the lock of a subject and finds an unfinished operation on it recovers it: that means
it finishes it or undoes it (INV-27). Ctrl-C counts as a failure; no step may be left without a way
on from it.
"""

"""Databases: MySQL and MariaDB servers on volumes, with accounts, addresses and certificates.

- `DatabaseService` (`service.py`) creates, lists, starts, stops and changes them. Each feature is
  a package with a service of its own over `DatabaseOperations` (`operating.py`: locks, recovery).
- `DatabaseSpec` and `DatabaseRecord` (`model.py`) are what is known of a database. `records.py`
  keeps them; `ports.py` says what databases need of volumes, images and the cluster.
- `catalogue.py` names every kind of operation. Its module is imported when one is met.
- `admin_client.py` is the one way to a server: the socket, then the administrative port.

Failure and recovery: whoever takes the lock of a database recovers what was interrupted on it
first. Undo acts only on what carries the operation's id. Until a kind's step without a way back
(`no_way_back`) a failure or Ctrl-C undoes it; from there on the next command finishes it.
"""

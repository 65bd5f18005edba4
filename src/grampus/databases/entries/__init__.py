"""The read-write entry of a site: addresses that stay the same while databases move.

Without a common network segment a database has the address of its host, so clients need a new
address after each move. On some hosts of the site, the entry hosts, HAProxy listens at a port for
each database and leads to where that is. A client knows two of them.

- `Entry` (in `databases.model`): its hosts and its range of ports; `EntryPort`: of one database.
- `decide_entry`: which port a database gets, and where each port leads. Pure.
- `entry_config`: what HAProxy is told. Pure.
- `entries`: `Entries`, which turns it on and off, and keeps it leading to where databases are.

Failure and recovery: the records are what is wanted, and each command that changes where a database
is, and the controller, bring the entry hosts there again. So nothing is journaled: what was cut off
is seen as a difference. A host that cannot be reached is told later. Grampus that is away changes
nothing: HAProxy goes on leading to where it led.
"""

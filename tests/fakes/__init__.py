"""Fakes: what tests put at a port instead of a machine, a cluster, a server or the time.

| port | fake |
|---|---|
| `Clock` | `clock.FakeClock`: time passes when the code sleeps; `on_sleep` runs after each sleep |
| `Progress` | `progress.RecordedProgress` |
| `OperationJournal` | `stepped_journal.SteppedJournal`: stops before and after each step |
| `CommandRunner` | `commands.PlayedCommands`; `commands.FakeRunner` answers from a table |
| `Host`, `Fleet` | `hosts.FakeHost`, `hosts.FakeFleet` |
| `VolumePort` and the ports of its parts | `volumes`, `trash`, `migrations`, `takeovers` |
| `ClusterPort`, `ImagePort` of databases | `pools_and_images.FakeCluster`, `FakeImages` |
| `DatabasePort`, `DevicesPort`, `FactsPort` of benchmarks | `sysbench_host` |
| an object store, over HTTP | `s3.FakeS3`; `place` is its bucket |
| programs on this machine | `programs.put_first_in_path`: scripts in place of programs |

A subclass of `FakeHost` plays the programs of a host: `MysqlHost` plays MySQL and haproxy,
`SysbenchHost` plays sysbench, `FakeLabHost` plays the Ceph daemons of a lab, and `VolumeHost`
(`tests/unit/volumes/machine.py`) plays block devices, mounts and drivers. A test that needs one
more program overrides `play` and passes every other command to `super()`.

A fake that one directory of tests uses alone is in that directory, such as the environments of
benchmarks in `tests/unit/bench/environments`.

`specs.database_spec` makes a database from the few facts that a test is about.

How to make a fake fail:

- `host.up = False`: the host cannot be reached.
- `fuse.left, fuse.error = n, error`: the n-th change at any port of a world raises `error`, before
  or after the change. `interruption.stopped_runs` does this for every n, and `in_turn` makes the
  state that each run begins with.
- An attribute of the fake holds what the real one says when it fails, such as `serve_failure` of
  `MysqlHost`.

`tests/unit/test_fakes.py` fails if a port gets a method or a parameter that its fake lacks.
"""

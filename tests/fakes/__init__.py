"""What tests put at the ports instead of a machine, a cluster or the time: one fake for each port.

| port | fake |
|---|---|
| `Clock` | `clock.FakeClock`: time passes when somebody sleeps; `on_sleep` is what happens then |
| `Progress` | `progress.RecordedProgress` |
| `OperationJournal` | `stepped_journal.SteppedJournal`: can be stopped around each step |
| `CommandRunner` | `commands.FakeRunner`, which answers from a table |
| `Host`, `Fleet` | `hosts.FakeHost`, `hosts.FakeFleet` |
| `VolumePort` and its parts | `volumes.FakeVolumes`, `trash`, `migrations`, `takeovers` |
| `ClusterPort`, `ImagePort` of databases | `pools_and_images.FakeCluster`, `FakeImages` |
| `DatabasePort`, `DevicesPort`, `FactsPort` of benchmarks | `sysbench_host` |
| an object store, on the wire | `s3.FakeS3`, and `place` is its bucket |
| programs of the machine | `programs.put_first_in_path`: scripts in their place |

What runs on a host is played by a subclass of `FakeHost`: MySQL and haproxy by `MysqlHost`,
sysbench by `SysbenchHost`, a lab's Ceph daemons by `FakeLabHost`, block devices and drivers by
`VolumeHost` (`tests/unit/volumes/machine.py`, beside the cluster that it has images of). A test
that needs one more program overrides `play` and asks `super()` for the rest. What a test does not
care about in a database is in `specs.database_spec`.

How to make a fake fail:

- `host.up = False`: it cannot be reached.
- `fuse.left, fuse.error = n, error`: the n-th change at any port of a world raises `error`, before
  or after it was made. `interruption.stopped_runs` does that for every n; `in_turn` makes the state
  that it begins with.
- What a real one says as it fails is an attribute of the fake: `serve_failure`, `cats_fail`.

`tests/unit/test_fakes.py` holds the fakes against their ports: a method that a port gets, or a
parameter, is missed at once.
"""

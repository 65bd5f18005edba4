"""What tests put at the ports instead of a machine, a cluster or the time: one fake for each port.

- `clock.FakeClock` is a `Clock`; time passes when somebody sleeps, and `on_sleep` is what happens
  meanwhile.
- `progress.RecordedProgress` is a `Progress` that is kept.
- `stepped_journal.SteppedJournal` is an `OperationJournal` that can be stopped before and after
  each step, and applied steps are noted in it.
- `s3.FakeS3` is an object store on the wire.
- `mon_commands` puts what is asked of MONs in the words of `ceph`, and `image_ids` makes ids of
  images.

How to make one fail: set a `Fuse` (`interruption`), which all fakes of a world burn before and
after each change. It ends the process, or fails the call with an error, at the n-th of them.
`stopped_runs` does so for every n.
"""

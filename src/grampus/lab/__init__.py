"""The lab: a Ceph cluster and hosts on this one machine.

- `LabService` (`labs.py`) brings it up and takes it down; `LabSpec` (`model.py`) is what it
  is.
- A host is a network namespace with containers (`hosts/lab_host.py`); `network.py` makes the
  bridge, `bootstrap.py` the cluster, `osds.py` the OSDs, `images/` the root file systems.
- `OsdSetService` adds OSDs of other media, `PartService` (`parts.py`) the object gateway and the
  monitoring, `bit_rot.py`
  damage.

Failure and recovery: `lab up` begins wherever an earlier one stopped; a lab that never was up is
taken away when that fails, and one that holds data stays. `lab down` that was interrupted is
called again.
"""

"""A Ceph cluster that was not deployed by Grampus, on a bridge of this machine."""

"""MySQL databases on Ceph block storage."""

"""Sites: an existing Ceph cluster, existing hosts, and the addresses of their databases.

`model` has the records. A site owns neither its cluster nor its hosts: `forget` removes what
Grampus put there, and no data. A lab is the other kind of place: it makes its own cluster and
hosts (`lab/`). Code above asks for hosts and for the cluster, and does not know which it is.

Failure and recovery: adopting a site and adding a host change nothing that cannot be repeated; a
command that was interrupted is run again.
"""

"""Databases of hosts that are lost, run on other hosts.

`host_watch.HostWatch` looks at the hosts that have databases, for the controller, and
`host_states` classifies each and says what to do (both over `probing`: what answers in the
network). `failovers.DatabaseFailovers` takes one database from its host, for the controller and for
`grampus db failover`; `failover_steps` has the steps. `server_watch`, `server_states` and
`server_repair` are the same loop for servers whose host is well: hung ones, and ones that clients
cannot reach. `host_maintenance` moves databases away from hosts that are worked on.

Failure and recovery: until the volume's record says that the lost host is fenced, a failover is
undone when it fails or is cut off. From then on the next command, or the controller, finishes it.
`decide_rehoming` lets operations that name the lost host be finished where the database is now.
"""

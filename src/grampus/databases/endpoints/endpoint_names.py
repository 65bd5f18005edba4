"""The address of a read-only endpoint in the certificates of its replicas.

At the address of its host, an endpoint comes to hosts that were added after certificates were made.
Clients that check the name of a server would be refused there.
"""

from __future__ import annotations

from collections.abc import Sequence

from grampus.core.errors import GrampusError
from grampus.databases.administrator import administrator_of
from grampus.databases.database_work import DatabaseWork
from grampus.databases.endpoints.decide_endpoint import Candidate
from grampus.databases.instance import observe_daemon_state
from grampus.databases.kept_certificates import keep_certificates
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import ReadEndpoint
from grampus.databases.operating import DatabaseOperations
from grampus.databases.tls.certificate_steps import names_of, render_reload_sql


def ensure_named(
    operations: DatabaseOperations, endpoint: ReadEndpoint, replicas: Sequence[Candidate]
) -> bool:
    """Let each replica show a certificate that names the endpoint's address; whether all do.

    One that another command is at, or that cannot be reached, does not yet. One that does not run
    gets such a certificate when it starts. Open sessions go on.
    """
    known = [one.spec.name for one in replicas if one.spec.held_endpoint == endpoint.held_address]
    # Each of them, whatever fails.
    done = [ensure_certificate_named(operations, name) for name in known]
    return all(done)


def ensure_certificate_named(operations: DatabaseOperations, name: str) -> bool:
    """Let a server show a certificate that names all its addresses; whether it does now."""
    try:
        with operations.locked(name, timeout_s=0.0):
            ports, spec = operations.ports, operations.records.get(name).spec
            host = ports.fleet.host(spec.host)
            DatabaseWork(ports, spec).ensure_named()
            keep_certificates(ports, host, names_of(ports, spec))
            # Whether or not it was made now: who made it may have been killed before.
            if observe_daemon_state(host, server_daemon_name(name)) == "running":
                administrator_of(ports, spec).query(render_reload_sql(spec.flavour))
    except GrampusError:
        return False
    return True

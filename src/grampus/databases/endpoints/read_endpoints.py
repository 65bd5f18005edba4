"""Read-only endpoints of databases: kept where they can be served, leading to who can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grampus.core.errors import GrampusError
from grampus.databases.endpoints.decide_endpoint import Candidate, decide_host, decide_members
from grampus.databases.endpoints.endpoint_names import ensure_named
from grampus.databases.endpoints.endpoint_steps import CHANGE_ENDPOINT, EndpointOrder, members_of
from grampus.databases.endpoints.endpoint_work import EndpointWork, endpoint_daemon
from grampus.databases.endpoints.haproxy_daemon import require_haproxy
from grampus.databases.instance import observe_daemon_state
from grampus.databases.model import ReadEndpoint
from grampus.databases.operating import DatabaseOperations
from grampus.state.operations import Operation


@dataclass(frozen=True)
class EndpointChange:
    """What became of an endpoint."""

    endpoint: ReadEndpoint
    former: ReadEndpoint
    problem: GrampusError | None = None  # why it could not be served so
    # Replicas that could not be directed to where their primary is, as sentences.
    misled: tuple[str, ...] = ()

    @property
    def is_other(self) -> bool:
        """Whether it leads to others now, or is served elsewhere."""
        now, then = self.endpoint, self.former
        return (now.host, now.address, now.members) != (then.host, then.address, then.members)


class ReadEndpoints:
    """The read-only endpoints of the databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def settle(self, primary: str, replicas: Sequence[Candidate]) -> EndpointChange | None:
        """Serve the endpoint where and by whom it is to be served now.

        The lock of its lane is held, since before the replicas were looked at. None: it has none.
        What keeps it from being served is in the answer: replicas can be read at their own
        addresses all the same. Raises NotFoundError.
        """
        former = self._operations.records.find_read_endpoint(primary)
        if former is None:
            return None
        try:
            self._settle(primary, former, replicas)
        except GrampusError as error:
            return EndpointChange(self._now(primary, former), former, error)
        return EndpointChange(self._now(primary, former), former)

    def _settle(self, primary: str, former: ReadEndpoint, replicas: Sequence[Candidate]) -> None:
        record, fleet = self._operations.records.get(primary), self._operations.fleet
        reachable = [host.name for host in fleet.hosts() if fleet.is_reachable(host.name)]
        in_maintenance = self._operations.records.all_maintenance()
        usable = [name for name in reachable if name not in in_maintenance]
        names = decide_members(former, replicas)
        hosts = {one.spec.name: one.spec.host for one in replicas}
        host = decide_host(former, record.spec.host, hosts, names, usable)
        if host is None:  # rather on a host in maintenance than nowhere
            host = decide_host(former, record.spec.host, hosts, names, reachable)
        wanted = former.model_copy(update={"host": host, "members": names})
        if host is not None and former.shares_address:
            address = fleet.host(host).address
            wanted = wanted.model_copy(update={"address": address})
            if former.named != address and ensure_named(self._operations, wanted, replicas):
                wanted = wanted.model_copy(update={"named": address})
        specs = {one.spec.name: one.spec for one in replicas}
        order = EndpointOrder(
            database=primary,
            port=record.spec.port,
            endpoint=wanted,
            members=tuple(specs[name] for name in names),
        )
        if host is not None:
            require_haproxy(fleet.host(host))
        is_left = any(name in reachable for name in former.left_hosts)
        begun = self._begun(order)
        if begun is not None:
            self._operations.apply(begun, CHANGE_ENDPOINT, order)
        elif wanted != former or is_left or not self._is_served(order):
            self._operations.run(CHANGE_ENDPOINT, order)

    def _begun(self, order: EndpointOrder) -> Operation | None:
        """The same change, that was cut off or failed; one to something else is given up."""
        found = None
        for operation in self._operations.unfinished(order.database, lane="endpoint"):
            if CHANGE_ENDPOINT.parse(operation.spec) == order:
                found = operation
            else:
                self._operations.give_up(operation, "the endpoint needed another change meanwhile")
        return found

    def _is_served(self, order: EndpointOrder) -> bool:
        """Whether HAProxy runs there and leads to the members; they may have been others."""
        if order.endpoint.host is None:
            return True
        host = self._operations.fleet.host(order.endpoint.host)
        if observe_daemon_state(host, endpoint_daemon(order.database)) != "running":
            return False
        work = EndpointWork(
            self._operations.ports, order.database, order.port, members_of(order.members)
        )
        try:
            return work.is_leading(host)
        except GrampusError:
            return False  # it is looked at, and told of, by the steps

    def _now(self, primary: str, former: ReadEndpoint) -> ReadEndpoint:
        return self._operations.records.find_read_endpoint(primary) or former

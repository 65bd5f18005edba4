"""Parameters of a database's server: listed, set, reset, and what waits for a restart."""

from __future__ import annotations

from grampus.core.errors import NotFoundError, RefusedError
from grampus.databases.administrator import (
    Administrator,
    administrator_of,
    observer_of,
    passing_over_refusals,
)
from grampus.databases.application_support import observe_time_zones
from grampus.databases.database_work import DatabaseWork
from grampus.databases.growth.decide_reserve import require_fits_volume
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import own_options, server_daemon_name
from grampus.databases.live.decide_parameters import (
    ParameterValue,
    ParameterView,
    Variable,
    decide_reset_statement,
    decide_value,
    decide_views,
    find_variable,
    normalise_name,
    require_option,
    require_users_own,
)
from grampus.databases.live.live_changes import (
    SET_PARAMETER,
    ParameterChange,
)
from grampus.databases.live.server_variables import is_read_only, observe_variables
from grampus.databases.model import DatabaseRecord, DatabaseSpec
from grampus.databases.operating import DatabaseOperations
from grampus.databases.option_names import TIME_ZONE
from grampus.databases.settings import require_packet_fits
from grampus.databases.time_zones import decide_time_zone

PACKET_PARAMETER = "max_allowed_packet"
# `list` is a method of the service: inside it, the type goes by this name.
Names = list[str]


class DatabaseParameters:
    """Parameters of the servers of databases."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def list(self, name: str, *, everything: bool = False) -> list[ParameterView]:
        """What the user set and what waits for a restart; with `everything`, all there is.

        Raises NotFoundError, RefusedError with code `not-ready`, HostUnreachableError.
        """
        record = self._operations.ready(name)
        variables = None
        if self._is_running(record):
            variables = observe_variables(administrator_of(self._operations.ports, record.spec))
        return decide_views(
            record.spec.parameters, record.started_parameters, variables, everything=everything
        )

    def waiting(self, record: DatabaseRecord) -> Names:
        """The parameters of a running server that take effect at its next start, by name.

        The server is asked only when it was started with others than it has now. Raises what
        `Administrator.query` raises.
        """
        if record.spec.parameters == record.started_parameters:
            return []
        variables = observe_variables(observer_of(self._operations.ports, record.spec))
        views = decide_views(
            record.spec.parameters, record.started_parameters, variables, everything=False
        )
        return [view.name for view in views if view.state == "pending restart"]

    def plan_set(self, name: str, parameter: str, value: str) -> ParameterChange | None:
        """What it takes to have the server's parameter at `value`; None when it was set so.

        Raises NotFoundError with code `unknown-parameter`, UsageError with code `invalid-value`,
        RefusedError with code `own-parameter`, `session-parameter`, `no-time-zones`,
        `packet-too-big`, `too-big-for-volume`, `not-running` or `not-ready`, and
        HostUnreachableError.
        """
        record = self._operations.ready(name)
        spec, parameter = record.spec, normalise_name(parameter)
        require_users_own(parameter)
        require_option(name, parameter, is_mysql=spec.flavour == "mysql")
        if not self._is_running(record):
            raise RefusedError(
                f"The database {name} does not run, and only its server knows its parameters.",
                f"`grampus db start {name}` starts it.",
                code="not-running",
            )
        administrator = administrator_of(self._operations.ports, spec)
        variable = find_variable(parameter, observe_variables(administrator))
        decided = self._decide_value(administrator, spec, variable, value)
        if parameter == PACKET_PARAMETER:
            require_packet_fits(int(decided.option), spec.memory_bytes)
        require_fits_volume(spec, parameter, decided.option)
        if spec.parameters.get(parameter) == decided.option:
            return None
        parameters = {**spec.parameters, parameter: decided.option}
        waits = is_read_only(administrator, variable)
        return ParameterChange(
            changed=spec.model_copy(update={"parameters": parameters}),
            former_parameters=spec.parameters,
            parameter=parameter,
            statement_value=None if waits else decided.statement,
            former_statement_value=None if waits else _statement(variable),
            checked=True,
            running=True,
        )

    def set(self, name: str, parameter: str, value: str) -> ParameterChange | None:
        """Set it, and answer with what was done. Undone on failure.

        Raises what `plan_set` raises, and UsageError with code `invalid-value` when the server
        refuses it.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            change = self.plan_set(name, parameter, value)
            if change is not None:
                self._operations.run(SET_PARAMETER, change)
            return change

    def reset(self, name: str, parameter: str) -> ParameterChange:
        """Have it as Grampus, or else the server, has it, and answer with what was done.

        Also of a database that does not run, perhaps because of that parameter. Undone on failure.
        Raises NotFoundError with code `not-set`, RefusedError with code `not-ready`,
        HostUnreachableError.
        """
        with self._operations.locked(name):
            self._operations.settle_or_leave(name)
            change = self._plan_reset(name, parameter)
            self._operations.run(SET_PARAMETER, change)
            return change

    def _plan_reset(self, name: str, parameter: str) -> ParameterChange:
        record = self._operations.ready(name)
        spec, parameter = record.spec, normalise_name(parameter)
        if parameter not in spec.parameters:
            raise NotFoundError(
                f"The parameter {parameter} of {name} has its default value.",
                f"`grampus db parameter list {name}` shows the parameters that were set.",
                code="not-set",
            )
        statement = former = None
        running, ignored = self._is_running(record), False
        if running:
            administrator = administrator_of(self._operations.ports, spec)
            # A server that takes no statement, perhaps because of the parameter, takes its option
            # file at its next start.
            with passing_over_refusals():
                variable = observe_variables(administrator).get(parameter)
                # A newer server may take an option of an older one and do nothing with it.
                ignored = variable is None
                if variable is not None and not is_read_only(administrator, variable):
                    own = self._own_options(spec)
                    statement = decide_reset_statement(parameter, own, variable.kind)
                    former = _statement(variable)
        parameters = {key: value for key, value in spec.parameters.items() if key != parameter}
        return ParameterChange(
            changed=spec.model_copy(update={"parameters": parameters}),
            former_parameters=spec.parameters,
            parameter=parameter,
            statement_value=statement,
            former_statement_value=former,
            checked=False,
            running=running,
            ignored=ignored,
        )

    def _is_running(self, record: DatabaseRecord) -> bool:
        spec = record.spec
        if record.desired != "running":
            return False
        self._operations.require_reachable(spec.host, spec.name)
        host = self._operations.fleet.host(spec.host)
        return observe_daemon_state(host, server_daemon_name(spec.name)) == "running"

    def _decide_value(
        self, administrator: Administrator, spec: DatabaseSpec, variable: Variable, value: str
    ) -> ParameterValue:
        if variable.name == TIME_ZONE:
            known = observe_time_zones(administrator)
            value = decide_time_zone(spec.name, value, known)
        return decide_value(variable, value)

    def _own_options(self, spec: DatabaseSpec) -> dict[str, str | int]:
        return own_options(DatabaseWork(self._operations.ports, spec).plan())


def _statement(variable: Variable) -> str:
    """The value that the variable has now, as it follows `SET GLOBAL name =`."""
    return f"'{variable.value}'" if variable.kind == "words" else variable.value

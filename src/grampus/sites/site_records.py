"""The records of sites, and whether something is recorded in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

from pydantic import ConfigDict

from grampus.core.errors import RefusedError, not_found
from grampus.core.models import Model
from grampus.sites.model import (
    MACHINE_RECORD,
    SITE_HOST_RECORD,
    SITE_RECORD,
    SiteMachine,
    SiteSpec,
)
from grampus.state.store import Store


class _Stored(Model):
    """Of any record in a site, which pools it is in; what is in none has no such field.

    A deleted database has the records of the database and of its volume in its own.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    pool: str = ""
    journal_pool: str | None = None  # of a volume, or a database with one
    spec: _Stored | None = None
    record: _Stored | None = None
    volume: _Stored | None = None

    def pools(self) -> set[str]:
        inner = [one for one in (self.spec, self.record, self.volume) if one is not None]
        own = {self.pool, self.journal_pool or ""}
        return {*own, *(pool for one in inner for pool in one.pools())} - {""}

    def journal_pools(self) -> set[tuple[str, str]]:
        inner = [one for one in (self.spec, self.record, self.volume) if one is not None]
        own = {(self.pool, self.journal_pool)} if self.pool and self.journal_pool else set()
        return {*own, *(pair for one in inner for pair in one.journal_pools())}


class SiteRecords:
    """The sites of one home, whose own records are in `store`.

    `state_of` opens this machine's copy of a site's state; None: there is none. `in_use` names what
    may be recorded in a site, such as `database`, by the kind of its record.
    """

    def __init__(
        self, store: Store, state_of: Callable[[str], Store | None], in_use: Mapping[str, str]
    ) -> None:
        self._store = store
        self._state_of = state_of
        self._in_use = {"host": SITE_HOST_RECORD, **in_use}

    def all(self) -> list[SiteSpec]:
        """All sites, by name."""
        known = self._store.all(SITE_RECORD, None, SiteSpec).values()
        return [self._present(spec) for spec in known]

    def find(self, name: str) -> SiteSpec | None:
        """The site of that name; None: there is no site of that name."""
        known = self._store.get(SITE_RECORD, name, name, SiteSpec)
        return None if known is None else self._present(known)

    def _present(self, known: SiteSpec) -> SiteSpec:
        """The site as its state has it: other machines may have changed it since it was adopted."""
        state = self._state_of(known.name)
        if state is None:
            return known
        with closing(state):
            return state.get(SITE_RECORD, known.name, known.name, SiteSpec) or known

    def get(self, name: str) -> SiteSpec:
        """The site of that name. Raises NotFoundError."""
        spec = self.find(name)
        if spec is None:
            known = [one.name for one in self.all()]
            raise not_found("site", name, known, list_command="grampus site list")
        return spec

    def put(self, spec: SiteSpec) -> None:
        """Record a site, or what has changed of it."""
        self._store.put(SITE_RECORD, spec.name, spec.name, spec)

    def remove(self, name: str) -> None:
        """Forget a site, and what was warned of in it."""
        self._store.remove_lab(name)

    def is_used(self, name: str) -> bool:
        """Whether something is recorded in the site."""
        return any(self._names(kind, name) for kind in self._in_use.values())

    def pools_in_use(self, name: str) -> set[str]:
        """The pools that something recorded in the site is in."""
        state = self._state_of(name)
        if state is None:
            return set()
        with closing(state):
            return {
                pool
                for kind in self._in_use.values()
                for record in state.all(kind, name, _Stored).values()
                for pool in record.pools()
            }

    def journal_pools(self, name: str) -> frozenset[tuple[str, str]]:
        """The pools of images whose journals are in another pool, each with that pool."""
        state = self._state_of(name)
        if state is None:
            return frozenset()
        with closing(state):
            return frozenset(
                pair
                for kind in self._in_use.values()
                for record in state.all(kind, name, _Stored).values()
                for pair in record.journal_pools()
            )

    def hosts(self, name: str) -> list[str]:
        """The names of the site's hosts, sorted."""
        return self._names(SITE_HOST_RECORD, name)

    def machines(self, name: str) -> dict[str, SiteMachine]:
        """The machines that work on the site, by the ids of their copies."""
        state = self._state_of(name)
        if state is None:
            return {}
        with closing(state):
            return state.all(MACHINE_RECORD, name, SiteMachine)

    def _names(self, kind: str, name: str) -> list[str]:
        state = self._state_of(name)
        if state is None:
            return self._store.names(kind, name)  # an earlier release has adopted the site
        with closing(state):
            return state.names(kind, name)

    def require_unused(self, name: str) -> SiteSpec:
        """Raise RefusedError with code `site-in-use` while something is recorded in the site."""
        spec = self.get(name)
        for noun, kind in self._in_use.items():
            names = self._names(kind, name)
            if names:
                shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
                raise RefusedError(
                    f"The site '{name}' has {len(names)} {noun}{'' if len(names) == 1 else 's'}: "
                    f"{shown}.",
                    "Remove databases, volumes and hosts first (`grampus db delete NAME --now`, "
                    "`grampus db trash list`, `grampus host remove HOST`).",
                    code="site-in-use",
                )
        return spec

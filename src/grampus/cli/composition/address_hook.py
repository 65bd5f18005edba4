"""The composition root, of the address hook of a site."""

from __future__ import annotations

from grampus.cli.composition.session import Session
from grampus.databases.address_hook import AddressAnnouncing
from grampus.hosts.process import run_command

HOOK_TIMEOUT_S = 30.0


class AddressHookProgram:
    """Runs the program on this machine, with a JSON document on its standard input."""

    def __init__(self, program: str, *, timeout_s: float = HOOK_TIMEOUT_S) -> None:
        self.program = program
        self._timeout_s = timeout_s

    def tell(self, document: str) -> None:
        """Run it to its end. Raises GrampusError."""
        run_command([self.program], stdin=document + "\n", timeout_s=self._timeout_s)


def address_announcing(session: Session) -> AddressAnnouncing | None:
    """What tells the hook of the site; None: it has none."""
    site = session.find_site()
    if site is None or not site.address_hook:
        return None
    operations = session.databases().operations
    return AddressAnnouncing(operations, site.name, AddressHookProgram(site.address_hook))

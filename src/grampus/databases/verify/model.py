"""What was verified of a database, and what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict

from grampus.core.models import Model

# `unchecked`: its engine knows no check, it was dropped meanwhile, or the server ended before it.
TableOutcome = Literal["sound", "broken", "unchecked"]


class TableCheck(Model):
    """What CHECK TABLE said of one table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str  # such as `shop.orders`
    outcome: TableOutcome
    said: str = ""  # the server's own words where it is not sound


class VerificationSummary(Model):
    """The last verification of a database, as it is kept with it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: datetime
    is_sound: bool
    said: str  # in one line

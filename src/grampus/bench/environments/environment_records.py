"""What the state says of environments: what is in it is a benchmark's, and may be removed."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ConfigDict

from grampus.bench.environments.environment_plan import NO_CODE, EnvironmentPlan
from grampus.bench.environments.osd_needs import OsdNeeds
from grampus.core.models import Model

# States of earlier releases have records of this kind: the word stays.
ENVIRONMENT_RECORD = "bench-stand"
POOL_RECORD = "bench-pool"
OSD_SET_RECORD = "bench-osd-set"
QUIET_RECORD = "bench-quiet"
QUIET = "cluster"
PROFILE_RECORD = "bench-profile"
PROFILE = "cluster"
BUDGET_RECORD = "bench-budget"
BUDGET = "hosts"


class BenchEnvironment(Model):
    """An environment and the pool that it is in, written before anything of it is made.

    `ready`: all members are there with their data.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    plan: EnvironmentPlan
    pool: str
    ready: bool = False


class BenchPool(Model):
    """A pool that was not there before an environment needed it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    copies: int
    osd_set: str | None = None  # that it is on; None: the place's own OSDs
    erasure_code: str = NO_CODE  # of the data of its images, or of itself


class BenchOsdSet(Model):
    """OSDs that cells need beside those of the place, written before any of them is made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    needs: OsdNeeds


class BenchQuiet(Model):
    """What was switched off for a run and was on before, written before that."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    flags: tuple[str, ...]  # that were not set
    balancer: bool
    # Whether the configuration said that it is on; not: it is on by default. A record of a release
    # that did not look leaves the setting.
    balancer_is_set: bool = True
    pools: Mapping[str, str]  # those that scale by themselves, with their mode


class BenchProfile(Model):
    """The tuning profile that the cluster has, or is on its way to, and what was there before any.

    `options` are those of OSDs that were set; `kernel` holds each host's sysctls. Not `applied`:
    any part of the profile may be there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: str
    applied: bool
    options: Mapping[str, str]
    kernel: Mapping[str, Mapping[str, str]]


class BenchBudget(Model):
    """The cores that groups of each host may use when no budget is imposed, by host and group.

    Those without a limit are left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    quotas: Mapping[str, Mapping[str, float]]

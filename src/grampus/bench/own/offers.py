"""What somebody's own cluster offers to a matrix, and why nothing else. Pure.

Nothing is offered that changes what is the owner's: OSDs are neither restarted nor limited, made
or filled, and their caches serve others. A dimension without an offer has its default alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from grampus.bench.environments.environment_plan import NO_CODE
from grampus.bench.environments.offers import MAX_CLIENTS, MAX_THREADS, MAX_VOLUMES
from grampus.bench.environments.osd_needs import OWN
from grampus.bench.matrix.capabilities import Capabilities, Offer
from grampus.bench.own.placement import Placement

WORKLOADS = (
    "rados-write",
    "rados-read",
    "rbd-write",
    "rbd-read",
    "rbd-randwrite",
    "rbd-randread",
)
MIN_COPIES = 2
MAX_COPIES = 5
_AS_IT_IS = (
    "an external cluster is measured as it is: Grampus neither changes nor restarts its OSDs"
)
_PLAIN = "its load generators are rados bench and rbd bench, which need neither"
_HERE = "one machine runs them all"


def decide_own_capabilities(
    place: str, placement: Placement, versions: Mapping[str, tuple[str, ...]]
) -> Capabilities:
    """All that can be measured on the cluster `place`, in pools with that placement."""
    as_it_is = Offer(values=(OWN,), because=_AS_IT_IS)
    offers = {
        "workload": Offer(
            values=WORKLOADS,
            because="databases and attached volumes need hosts that Grampus runs them on; here it "
            "has this machine alone, as a client",
        ),
        "threads": Offer(at_least=1, at_most=MAX_THREADS, because="a client is one process"),
        "volumes": Offer(at_least=1, at_most=MAX_VOLUMES, because=_HERE),
        "clients": Offer(at_least=1, at_most=MAX_CLIENTS, because=_HERE),
        "copies": _offer_copies(placement),
        "erasure_code": Offer(
            values=(NO_CODE,), because="a benchmark makes replicated pools alone there"
        ),
        "media": as_it_is,
        "wal_db_device": as_it_is,
        "objectstore": as_it_is,
        "osds_per_device": Offer(values=(1,), because=_AS_IT_IS),
        "osd_devices_per_host": Offer(values=(1,), because=_AS_IT_IS),
        "osd_cores_per_host": Offer(values=("all",), because=_AS_IT_IS),
        "osd_thread_cache_mib": Offer(values=(128,), because=_AS_IT_IS),
        "osd_memory_target_mib": Offer(values=(1024,), because=_AS_IT_IS),
        "osd_hosts": Offer(values=("all",), because=_AS_IT_IS),
        "fill_percent": Offer(values=(0,), because="nobody's cluster is filled for a benchmark"),
        "profile": Offer(values=("grampus",), because=_AS_IT_IS),
        "layout": Offer(
            values=("decoupled",), because="load generators are on this machine, OSDs elsewhere"
        ),
        "runtime": Offer(values=("container",), because=_PLAIN),
        "driver": Offer(values=("auto",), because=_PLAIN),
        "caches": Offer(values=("keep",), because="the OSDs' caches serve others too"),
        "monitors": Offer(values=("all", "none")),
        "controller": Offer(values=("none",), because="Grampus has no databases there"),
    }
    return Capabilities(place=place, offers=offers, versions=versions)


def _offer_copies(placement: Placement) -> Offer:
    most = min(placement.domains, MAX_COPIES)
    because = (
        f"a pool of one copy needs a switch that is the owner's, and the CRUSH rule "
        f"{placement.rule} puts copies on different {placement.domain}s, of which "
        f"{placement.domains} have OSDs that are up"
    )
    if most < MIN_COPIES:
        return Offer(because=because)
    return Offer(at_least=MIN_COPIES, at_most=most, because=because)

"""In which state a host with databases is, and what is to be done about it. All pure.

A host is looked for in two independent ways: commands are run on it, and its neighbours connect to
it. It is dead when neither gets an answer for long enough; what runs there still is fenced before
anything is opened elsewhere (INV-25), so a wrong guess costs its clients their sessions and no
commit. A slow host answers, and a slow cluster leaves its MONs in reach: neither is ever left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

HostStateName = Literal[
    "healthy",
    "planned",
    "host-suspect",
    "host-dead",
    "host-cut-from-ceph",
    "host-cut-from-controller",
    "controller-cut-off",
    "cluster-stuck",
    "flapping",
]
Symptom = Literal["silent", "cut-from-ceph"]
# What to do with the databases of a host: `move` after a fence, or `alert` its user, or `wait` for
# the next look.
HostAction = Literal["none", "wait", "move", "alert"]

# A lost packet is sent again after 1 s (RFC 6298), so what answers at all does so within this time.
# From the beginning of the first look that found nobody. One look may ask so many times.
LOST_AFTER_S = 2.0
LOST_AFTER_ROUNDS = 3
# From the first look that found that the host reaches no MON. A request of a volume there has
# waited for as long by then: whom the cluster answers is not cut off, however slow it is.
CUT_AFTER_S = 2.0
# A host that was lost and came back so often in so long is left alone until it is gone for longer.
FLAPS = 3
FLAP_WINDOW_S = 600.0
FLAPPING_LOST_AFTER_S = 60.0


@dataclass(frozen=True)
class HostSight:
    """What one look saw of a host."""

    managed: bool  # commands run there
    peers: int = 0  # other hosts that looked for it; nobody does while it is managed
    heard_by: int = 0  # those of them to which it, or one of its databases, answered
    cluster_answers: bool = True  # the MONs have a quorum, as seen from another host
    reaches_mons: bool = True  # it can connect to one of the MONs, as far as it was asked
    # Volumes there whose requests the cluster has not answered for CUT_AFTER_S.
    silent_volumes: int = 0
    rounds: int = 1  # how often it was asked in this look, each time with packets of its own

    @property
    def symptom(self) -> Symptom | None:
        """What is wrong with the host, if the look can tell.

        A host that is cut off from the cluster harms nobody before a volume there waits for it.
        """
        if not self.managed:
            return "silent" if self.is_conclusive and not self.heard_by else None
        return "cut-from-ceph" if not self.reaches_mons and self.is_conclusive else None

    @property
    def is_conclusive(self) -> bool:
        """Whether the look can tell a host that is lost from a cluster or a controller that is."""
        if self.managed:
            return self.reaches_mons or self.cluster_answers
        return self.heard_by > 0 or (self.peers > 0 and self.cluster_answers)


@dataclass(frozen=True)
class HostTrack:
    """What the looks before have seen of a host. Moments are monotonic seconds."""

    symptom: Symptom | None = None
    since_s: float = 0.0  # when the symptom was seen first
    rounds: int = 0  # how often it was asked since, over all looks
    losses_s: tuple[float, ...] = ()  # when symptoms began, the oldest first

    def lasted_s(self, now_s: float) -> float:
        """For how long the symptom has been seen; 0 without one."""
        return now_s - self.since_s if self.symptom else 0.0


@dataclass(frozen=True)
class HostState:
    """The state of a host, and why."""

    name: HostStateName
    evidence: str = ""  # a sentence that stays the same as long as the state does
    lasted_s: float = 0.0  # since the symptom was seen first


def follow_host(track: HostTrack, sight: HostSight, now_s: float) -> HostTrack:
    """The track after one more look, which began at `now_s`.

    A look that cannot tell neither confirms a symptom nor ends it.
    """
    recent = tuple(at for at in track.losses_s if now_s - at < FLAP_WINDOW_S)
    if not sight.is_conclusive:
        return replace(track, losses_s=recent)
    if sight.symptom is None:
        return HostTrack(losses_s=recent)
    if sight.symptom != track.symptom:
        losses = recent if track.symptom else (*recent, now_s)[-FLAPS:]
        return HostTrack(sight.symptom, now_s, sight.rounds, losses)
    return replace(track, rounds=track.rounds + sight.rounds, losses_s=recent)


def classify_host(
    host: str, track: HostTrack, sight: HostSight, now_s: float, *, is_planned: bool = False
) -> HostState:
    """The state of `host`, from the looks before (`track`, with this one) and this one."""
    lasted_s = track.lasted_s(now_s)
    if is_planned:
        return HostState("planned", f"{host} is in maintenance.")
    if sight.managed:
        return _classify_managed(host, track, sight, lasted_s)
    if sight.heard_by:
        return HostState(
            "host-cut-from-controller",
            f"Grampus cannot run commands on {host}, but {host} answers other hosts.",
        )
    if not sight.peers:
        return HostState(
            "controller-cut-off",
            f"Grampus cannot run commands on {host}, and can reach no other host to look for it.",
        )
    if not sight.cluster_answers:
        return HostState(
            "cluster-stuck",
            f"{host} does not answer, and neither do the MONs of the cluster.",
            lasted_s,
        )
    return _classify_lost(
        "host-dead",
        f"{host} answers neither Grampus nor the other hosts.",
        track,
        lasted_s,
        LOST_AFTER_S,
    )


def _classify_managed(host: str, track: HostTrack, sight: HostSight, lasted_s: float) -> HostState:
    if sight.reaches_mons or not sight.silent_volumes:
        return HostState("healthy")
    if not sight.cluster_answers:
        return HostState("cluster-stuck", "The MONs of the cluster do not answer.", lasted_s)
    return _classify_lost(
        "host-cut-from-ceph",
        f"{host} cannot reach the cluster, which other hosts can reach.",
        track,
        lasted_s,
        CUT_AFTER_S,
    )


def _classify_lost(
    name: HostStateName, evidence: str, track: HostTrack, lasted_s: float, after_s: float
) -> HostState:
    if track.rounds < LOST_AFTER_ROUNDS or lasted_s < after_s:
        return HostState("host-suspect", evidence, lasted_s)
    if len(track.losses_s) >= FLAPS and lasted_s < FLAPPING_LOST_AFTER_S:
        return HostState(
            "flapping",
            f"{evidence} It was lost and came back several times within "
            f"{FLAP_WINDOW_S / 60:.0f} minutes, so Grampus waits {FLAPPING_LOST_AFTER_S:.0f} s.",
            lasted_s,
        )
    return HostState(name, evidence, lasted_s)


_ACTIONS: dict[HostStateName, HostAction] = {
    "healthy": "none",
    "planned": "none",
    "host-suspect": "wait",
    "host-dead": "move",
    "host-cut-from-ceph": "move",
    "host-cut-from-controller": "alert",
    "controller-cut-off": "alert",
    "cluster-stuck": "alert",
    "flapping": "alert",
}


def decide_host_action(state: HostState) -> HostAction:
    """What to do with the databases of a host in this state."""
    return _ACTIONS[state.name]

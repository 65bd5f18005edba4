"""INV-25, INV-74: no order of events in a small model makes two writers or loses a commit.

Two controllers fail a database over from one host, each to a host of its own. Anything may happen
at any moment: a controller pauses, dies, comes back and resumes; the host is cut off, returns, or
runs on; a controller takes a healthy host for lost. All reachable states are visited. The steps are
those that the product builds, in its order; what each of them does to the image is modelled here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from grampus.databases.failover.failover_steps import FAIL_OVER, FailoverOrder

from .failover_world import FailoverWorld

# What happens when a step is applied. The fence is confirmed in two: the cluster refuses the
# client from the first on, and the volume's record says so from the second on.
_FENCE = ("blocklist", "note-fenced")
# These change nothing that decides who may write.
_HARMLESS = {"prepare", "silence", "address", "files", "serve", "metadata", "end"}
_KNOWN = _HARMLESS | {"fence", "record", "attach"}
_OLD_CLIENT = 0  # on the host that is taken for lost; a controller's client has its number
MOST_COMMITS = 3


@dataclass(frozen=True)
class Controller:
    """One controller, and the host that it fails over to, which has its number."""

    step: int | None = None  # that it applies next; None: it does nothing
    has_crashed: bool = False


@dataclass(frozen=True)
class World:
    """Everything that decides who may write."""

    is_cut_off: bool = False  # the old host from the cluster
    was_cut_off: bool = False
    refused: frozenset[int] = frozenset()  # clients on the blocklist
    is_open: frozenset[int] = frozenset({_OLD_CLIENT})  # clients that have the image open
    lock: int | None = _OLD_CLIENT  # the client that has the image's exclusive lock
    newest: int = _OLD_CLIENT  # the client that opened the image last: it has replayed everything
    commits: int = 0
    volume_host: int | None = _OLD_CLIENT  # in the volume's record; None: it is detached
    # The journaled operation: whose it is, and None once it is over.
    operation: int | None = None
    controllers: tuple[Controller, Controller] = (Controller(), Controller())


class TwoWritersError(AssertionError):
    """A commit was acknowledged that the newest owner of the image does not know."""


class Model:
    """The reachable states of one list of steps."""

    def __init__(self, steps: Sequence[str], *, shares_lock: bool) -> None:
        """`shares_lock`: the controllers run on one machine, and its locks keep one out."""
        unknown = set(steps) - _KNOWN - set(_FENCE)
        assert not unknown, f"say what these steps do to the image: {unknown}"
        self._steps = [part for step in steps for part in (_FENCE if step == "fence" else (step,))]
        self._shares_lock = shares_lock

    def explore(self) -> tuple[int, set[str]]:
        """How many states there are, and what was seen. Raises TwoWritersError with the way."""
        seen: set[str] = set()
        ways: dict[World, tuple[World, str] | None] = {World(): None}
        waiting = deque([World()])
        while waiting:
            world = waiting.popleft()
            for what, after in self._happens(world):
                seen.add(what.partition(" ")[0])
                if after is None:
                    raise TwoWritersError([*_way_to(ways, world), what])
                if after not in ways:
                    ways[after] = (world, what)
                    waiting.append(after)
        return len(ways), seen

    # -- inside -------------------------------------------------------------------------------

    def _happens(self, world: World) -> Iterator[tuple[str, World | None]]:
        """What may happen next, and what is then; None: what must never be."""
        if not world.was_cut_off:
            yield "cut-off", replace(world, is_cut_off=True, was_cut_off=True)
        if world.is_cut_off:
            yield "heal", replace(world, is_cut_off=False)
        for client in world.is_open:
            can_write = client not in world.refused and not (
                client == _OLD_CLIENT and world.is_cut_off
            )
            if can_write and world.commits < MOST_COMMITS:
                # Acknowledged: the write is on all copies. Who opened the image later has not
                # replayed it, and would overwrite it.
                is_known = client == world.newest
                yield (
                    f"commit of client {client}",
                    replace(world, commits=world.commits + 1) if is_known else None,
                )
        for number in (1, 2):
            yield from self._controller_happens(world, number)

    def _controller_happens(self, world: World, number: int) -> Iterator[tuple[str, World | None]]:
        me, other = world.controllers[number - 1], world.controllers[2 - number]
        is_kept_out = self._shares_lock and other.step is not None
        if me.step is None:
            if is_kept_out:
                return
            if world.operation is None and world.volume_host == _OLD_CLIENT:
                begun = replace(world, operation=number)
                yield f"decide {number}", _put(begun, number, replace(me, step=0))
            elif world.operation is not None:
                yield f"recover {number}", self._recover(world, number, me)
            return
        if not me.has_crashed:
            yield f"crash {number}", _put(world, number, Controller(None, has_crashed=True))
        if me.step == len(self._steps):
            yield f"done {number}", _put(replace(world, operation=None), number, _idle(me))
            return
        step = self._steps[me.step]
        after = self._apply(world, step, number)
        if after is None:  # it is refused: the operation stays for whoever comes next
            yield f"refused {number}: {step}", _put(world, number, _idle(me))
        else:
            yield f"{step} {number}", _put(after, number, replace(me, step=me.step + 1))

    def _recover(self, world: World, number: int, me: Controller) -> World:
        """As `_is_undone_now` in failover_steps.py decides it."""
        if world.volume_host == _OLD_CLIENT:
            return replace(world, operation=None)
        return _put(world, number, replace(me, step=0))

    def _apply(self, world: World, step: str, number: int) -> World | None:
        """What one step does, at once; None: it is refused."""
        match step:
            case "blocklist" if world.volume_host == _OLD_CLIENT:
                return replace(world, refused=world.refused | {_OLD_CLIENT})
            case "note-fenced" if world.volume_host == _OLD_CLIENT:
                lock = None if world.lock == _OLD_CLIENT else world.lock
                return replace(world, volume_host=None, lock=lock)
            case "attach":
                return self._attach(world, number)
        return world

    def _attach(self, world: World, number: int) -> World | None:
        if number in world.is_open:
            return world
        if world.volume_host not in (None, number):
            return None  # it is attached elsewhere, as its record says
        if world.lock is not None and world.lock not in world.refused:
            return None  # somebody has the image open who may write
        return replace(
            world,
            is_open=world.is_open | {number},
            lock=number,
            newest=number,
            volume_host=number,
        )


def _idle(controller: Controller) -> Controller:
    return replace(controller, step=None)


def _put(world: World, number: int, controller: Controller) -> World:
    first, second = world.controllers
    pair = (controller, second) if number == 1 else (first, controller)
    return replace(world, controllers=pair)


def _way_to(ways: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    found: list[str] = []
    came = ways[world]
    while came is not None:
        world, what = came
        found.append(what)
        came = ways[world]
    return found[::-1]


@pytest.fixture
def steps(tmp_path: Path) -> list[str]:
    """Those of the product, in its order."""
    world = FailoverWorld(tmp_path)
    world.create(host="h1")
    spec = world.service().get("demo").spec
    order = FailoverOrder(
        changed=spec.model_copy(update={"host": "h2"}),
        former_host="h1",
        fenced_host="h1",
        running=True,
    )
    names = [step.name for step in FAIL_OVER.build(world.service().operations.ports, order)]
    world.close()
    return names


@pytest.mark.parametrize("shares_lock", [True, False])
def test_no_order_of_events_makes_two_writers_or_loses_a_commit(
    steps: list[str], shares_lock: bool
) -> None:
    states, seen = Model(steps, shares_lock=shares_lock).explore()
    assert states > 1000, "so few states cannot be all of them"
    assert {"cut-off", "heal", "commit", "decide", "crash", "recover", "attach", "done"} <= seen


@pytest.mark.parametrize("wrong", ["without", "late"])
@pytest.mark.parametrize("shares_lock", [True, False])
def test_the_model_notices_a_fence_that_is_missing_or_late(
    steps: list[str], wrong: str, shares_lock: bool
) -> None:
    others = [step for step in steps if step != "fence"]
    model = Model(others, shares_lock=shares_lock)
    if wrong == "late":
        at = others.index("attach") + 1
        model = Model([*others[:at], "fence", *others[at:]], shares_lock=shares_lock)
    with pytest.raises(TwoWritersError) as caught:
        _explore_without_guards(model)
    assert "commit of client 0" in str(caught.value)


def _explore_without_guards(model: Model) -> None:
    """As if attaching asked neither the record nor the lock: the fence alone protects."""

    def attach(world: World, number: int) -> World:
        return replace(world, is_open=world.is_open | {number}, newest=number)

    model._attach = attach  # type: ignore[method-assign]
    model.explore()

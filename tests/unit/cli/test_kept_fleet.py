from __future__ import annotations

from types import SimpleNamespace

from grampus.cli.composition.lab import KeptFleet
from grampus.lab.model import LabSpec

SPEC = LabSpec.model_construct(name="t", tag="abcde")


def test_hosts_are_kept_from_one_session_to_the_next_until_the_lab_is_another_one() -> None:
    made: list[SimpleNamespace] = []

    def make(spec: LabSpec) -> SimpleNamespace:
        fleet = SimpleNamespace(tag=spec.tag, is_closed=False)
        fleet.close = lambda: setattr(fleet, "is_closed", True)
        made.append(fleet)
        return fleet

    kept = KeptFleet()
    kept.close()  # nothing was made
    first = kept.of(SPEC, make)  # type: ignore[arg-type]
    assert kept.of(SPEC.model_copy(), make) is first  # type: ignore[arg-type]
    other = kept.of(SPEC.model_copy(update={"tag": "fghij"}), make)  # type: ignore[arg-type]
    assert [fleet.is_closed for fleet in made] == [True, False]
    assert (other, len(made)) == (made[1], 2)
    kept.close()
    assert made[1].is_closed

from __future__ import annotations

import pytest

from bench.schedule import Design, levels, shuffled, sides, slots, steady
from engine.findings import Problems


def test_e63_both_arms_stand_at_the_same_mean_place() -> None:
    for cycles in (1, 2, 3, 4):
        order = sides(Design.ABBA, cycles)
        places = {side: [place for place, found in enumerate(order) if found == side] for side in "AB"}
        assert sum(places["A"]) == sum(places["B"])
    assert sides(Design.ABBA, 2) == "ABBABAAB"
    assert (sides(Design.AB, 2), sides(Design.SINGLE, 2)) == ("AB", "A")


@pytest.mark.parametrize("repeats", [4, 5, 10, 11])
def test_each_arm_does_all_repeats_once_and_twins_the_same_ones(repeats: int) -> None:
    found = slots(Design.ABBA, 2, repeats)
    by_side = {side: [slot.repeats for slot in found if slot.side == side] for side in "AB"}
    assert by_side["A"] == by_side["B"]
    assert [repeat for part in by_side["A"] for repeat in part] == list(range(repeats))
    assert [slot.order for slot in found] == list(range(8))


def test_fewer_repeats_than_blocks_are_refused() -> None:
    line = "error: repeats: 3: fewer than the 4 blocks of an arm; give --repeats 4 or more, or fewer --cycles"
    with pytest.raises(Problems) as raised:
        slots(Design.ABBA, 2, 3)
    assert str(raised.value) == line


def test_the_order_of_cases_is_fixed_by_seed_and_repeat_alone() -> None:
    cases = list(range(30))
    orders = [shuffled(cases, 42, repeat) for repeat in range(5)]
    assert [shuffled(cases, 42, repeat) for repeat in range(5)] == orders
    assert len({tuple(order) for order in orders}) == 5
    assert all(sorted(order) == cases for order in orders)
    assert shuffled(cases, 43, 0) != orders[0]


def test_concurrencies_are_reversed_in_every_second_block_of_an_arm() -> None:
    found = [levels((1, 4, 8), slot) for slot in slots(Design.ABBA, 1, 2)]
    assert found == [(1, 4, 8), (1, 4, 8), (8, 4, 1), (8, 4, 1)]


@pytest.mark.parametrize(
    ("passes", "enough"),
    [([], False), ([9.0], False), ([9.0, 5.0], False), ([9.0, 5.0, 4.9], True), ([5.0, 5.0], True), ([5.0, 6.0], True)],
)
def test_warm_up_goes_on_while_it_gets_faster(passes: list[float], enough: bool) -> None:
    assert steady(passes) is enough

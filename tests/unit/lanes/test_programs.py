"""Random programs over lanes: values, order, writes in place, and what `check` would say of their collectives."""

import pytest
from campaign_lanes import Act, campaign, disagreements, is_racing, program_of


def test_random_programs_hold():
    figures = campaign(range(5_000, 5_040), told=pytest.fail)
    assert figures["disagreements"] == 0
    assert min(figures["writes_planted"], figures["failures_planted"], figures["with_a_race"]) > 0, "nothing was asked"


def test_a_program_with_a_race_is_found_and_its_ordered_twin_is_not():
    submit, call = Act("submit", has_call=True), Act("call", has_call=True)
    assert is_racing([submit, call])
    assert not is_racing([submit, Act("use", inputs=(0,)), call])


def test_a_program_is_a_function_of_its_seed():
    assert program_of(7) == program_of(7)
    assert disagreements(7)[0] == []

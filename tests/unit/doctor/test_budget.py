"""A budget that does not suffice for all probes: what is tried comes to an end, and what is not is said."""

import pytest

from emberward.doctor import Fleet, Result, SetOutcome, document_of, examine, parse_probe, table_of

PROBES = tuple(parse_probe(f"{name}=true") for name in ("first", "second", "third"))


class SlowRunner:
    """Tests pass; each round takes `round_s` of a clock of its own, or is cut at the end that it is given."""

    left_behind = 0

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, round_s: float) -> None:
        self.fleet, self.now_s, self._round_s = Fleet.of(["h0"], 2), 0.0, round_s
        monkeypatch.setattr("emberward.doctor._examine.time.monotonic", lambda: self.now_s)

    def run(self, probe, sets, *, until_s):
        is_cut = self.now_s + self._round_s > until_s
        self.now_s = min(self.now_s + self._round_s, until_s)
        values = [dict.fromkeys(devices, 1.0) for devices in sets]
        return (
            []
            if is_cut
            else [
                Result(devices=devices, outcome=SetOutcome.PASS, seconds=self._round_s, values=value)
                for devices, value in zip(sets, values, strict=True)
            ]
        )


def test_what_the_budget_left_untried_is_said_with_the_time_that_it_would_take(monkeypatch):
    found = examine(SlowRunner(monkeypatch, round_s=8.0), PROBES, budget_s=10.0, seed=1)
    assert [plan.round for plan in found.plans] == [1, 1, 0]
    assert [len(plan.results) > 0 for plan in found.plans] == [True, False, False]
    assert document_of(found)["not_tried"] == ["second", "third"]
    assert document_of(found)["least_budget_s"] == 24.0
    assert table_of(found).splitlines()[-2:] == [
        "not tried, for want of time: second, third",
        "  next      --budget 30: a round took 8 s here",
    ]


@pytest.mark.parametrize("budget_s", [24.0, 30.0, 70.0])
def test_in_the_budget_that_is_said_each_probe_is_tried(monkeypatch, budget_s):
    found = examine(SlowRunner(monkeypatch, round_s=8.0), PROBES, budget_s=budget_s, seed=1)
    assert all(plan.results for plan in found.plans)
    assert document_of(found)["not_tried"] == []
    assert "not tried" not in table_of(found)
    assert found.seconds <= budget_s


def test_where_no_round_ended_nobody_knows_how_long_the_others_take(monkeypatch):
    found = examine(SlowRunner(monkeypatch, round_s=30.0), PROBES, budget_s=10.0, seed=1)
    assert document_of(found)["not_tried"] == ["first", "second", "third"]
    assert table_of(found).splitlines()[-1] == "  next      --budget more: no round ended"

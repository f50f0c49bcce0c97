"""What a step would take without something: steps whose calls are written down here, run again."""

import pytest
from unit.lens.test_overlap import COMM, FILE, HOST, MS, NUM, STEP_MS, calls, samples

from emberward.events import Group
from emberward.findings import Cause
from emberward.lens import Call, Cut, Edit, Replay, Sources, audit, in_order, page_text, profile_of, samples_of

BLOCKING = [(40, 40, 45)], [(10, 10, 45)]
"""Rank 0 comes to its call at 40 ms of each step, rank 1 at 10 and waits."""


def replay(plans):
    ranks = [calls(rank, plan, wait_line=3, line=3) for rank, plan in enumerate(plans)]
    both = [samples(rank, lines={2: 30, 3: 5}) for rank in (0, 1)]
    return Replay(audit(ranks, both, Sources(lambda file: "")).met, both)


def each_step(at_ms, ms):
    return [Cut(at_s=(k * STEP_MS + at_ms) / 1000, seconds=ms / 1000) for k in range(NUM)]


def test_the_replay_of_what_was_measured_is_what_was_measured():
    for plans in (BLOCKING, [[(10, 11, 41)]] * 2, [[]] * 2):
        again = replay(plans)
        assert again.step_s == pytest.approx(again.measured_s) == pytest.approx(STEP_MS / 1000)


def test_a_stall_is_worth_what_the_other_ranks_let_it_be():
    again = replay(BLOCKING)
    assert again.gain_s(Edit(cuts={0: each_step(20, 25)})) == pytest.approx(0.025)
    assert again.gain_s(Edit(cuts={0: each_step(20, 35)})) == pytest.approx(0.030)
    assert again.gain_s(Edit(cuts={1: each_step(5, 8)})) == 0.0
    both = Edit(cuts={0: each_step(20, 35), 1: each_step(5, 8)})
    assert again.gain_s(both) == pytest.approx(0.035)


def test_a_stall_that_hid_a_transfer_is_worth_what_the_transfer_did_not_need():
    again = replay([[(10, 50, 50.5)]] * 2)
    everywhere = {rank: each_step(30, 35) for rank in (0, 1)}
    # The transfer ends at 50.5 whatever the host does: 0.5 ms were waited for, the rest was hidden by the stall.
    assert again.gain_s(Edit(cuts=everywhere)) == pytest.approx(0.0, abs=1e-9)
    assert again.gain_s(Edit(cuts={rank: each_step(70, 35) for rank in (0, 1)})) == pytest.approx(0.035)


def test_a_call_passes_others_of_its_line_in_its_own_step_alone_and_on_all_ranks_or_on_none():
    again = replay([[(at, at, at + 10), (61, 61, 75)] for at in (50, 2)])

    def gain_ms(second_ms):
        return 1000 * again.gain_s(Edit(moved={(FILE, 3): [(0.0, 0.0), (second_ms / 1000, 0.0)]}))

    # The second call passes the first where the ranks' time before it is as long as it could be issued earlier.
    assert gain_ms(90) == pytest.approx(gain_ms(60)) and gain_ms(60) > 40
    assert gain_ms(45) > 10


def test_ranks_meet_in_the_backward_between_the_same_calls():
    own = {rank: [call(rank, 10, ended_ms=14)] for rank in (0, 1)}
    met = tuple(call(rank, at, ended_ms=at + 3, index=9, line=4) for rank, at in ((0, 30), (1, 8)))
    both = [samples(rank, lines={}) for rank in (0, 1)]
    everything = [met, [own[0][0], own[1][0]]]
    edit = Edit(dropped=frozenset({(FILE, 3)}))
    assert Replay(everything, both).gain_s(edit) == 0
    placed = in_order(met, own)
    assert [each.issued_s for each in placed] == [0.030, 0.014] and in_order(placed, own) == placed
    assert NUM * Replay([placed, *everything[1:]], both).gain_s(edit) == pytest.approx(0.004)


def test_ranks_whose_small_calls_are_one_wait_for_each_other_once():
    # Each rank is late to one of two calls: they wait 4 ms twice, and come together where they meet once.
    met = [
        [call(0, 14, ended_ms=15, number=1), call(1, 10, ended_ms=15, number=1)],
        [call(0, 20, ended_ms=25, number=2), call(1, 24, ended_ms=25, number=2)],
    ]
    again = Replay(met, [samples(rank, lines={}) for rank in (0, 1)])
    assert NUM * again.gain_s(Edit(joined=frozenset({(FILE, 3)}))) == pytest.approx(0.005)
    assert again.gain_s(Edit(joined=frozenset({(FILE, 4)}))) == 0


@pytest.mark.parametrize(
    ("file", "gain_ms"),
    [("/lib/torch/distributed/distributed_c10d.py", 7 + 7 / 8 * 12), ("/lib/torch/optim/adamw.py", 7)],
    ids=["asks", "computes"],
)
@pytest.mark.parametrize("max_events", [20_000, 3 * 6 * 2 * 8], ids=["all steps", "the first three alone"])
def test_small_calls_that_are_one_are_asked_for_once(file, gain_ms, max_events, monkeypatch):
    monkeypatch.setattr("emberward.lens._replay.MAX_EVENTS", max_events)
    # Eight calls of 1 ms, 2.5 ms apart: of 20 ms a step below their line 8 are waits, 12 go to asking, of which 7/8 go.
    plan = [(40 + 2.5 * i, 40 + 2.5 * i, 41 + 2.5 * i) for i in range(8)]
    ranks = [calls(rank, plan, wait_line=3, line=3, numel=100) for rank in (0, 1)]
    told = [samples_below(rank, file) for rank in (0, 1)]
    overlap = audit(ranks, told, Sources(lambda file: ""))
    assert [(each.cause, each.issued_at) for each in overlap.found] == [(Cause.TINY_MESSAGES, (FILE, 3))]
    assert 1000 * Replay(overlap.met, told).without(overlap.found[0]) == pytest.approx(gain_ms, rel=0.01)


def samples_below(rank, file):
    """A rank that is seen 20 ms of each step in a function of `file` that line 3 calls, around 50 ms into the step."""
    head, (_, _, end) = samples_head(rank)
    places = [[file, "broadcast", 1, "platform", 9, 9, 0, 1, "CALL"], [FILE, "<module>", 1, "user", 3, 3, 0, 1, "CALL"]]
    cells = {step: [20 * MS, 20 * MS, (step * STEP_MS + 50) * MS] for step in range(NUM)}
    stack = {"stack": [0, 1], "flag": "", "steps": cells}
    return samples_of([head, *({"place": place} for place in places), stack, end])


def call(rank, began_ms, *, ended_ms, index=0, number=1, lane=HOST, waited_ms=None, line=3):
    """A call of one step; `waited_ms`: from when to when it was waited for, where that is not the call itself."""
    blocked_ms, free_ms = waited_ms or (began_ms, ended_ms)
    return Call(
        rank=rank, lane=lane, group=Group(ranks=(0, 1), index=index), number=number, op="barrier", num_bytes=0,
        issued_s=began_ms / 1000, ended_s=ended_ms / 1000, blocked_s=blocked_ms / 1000, free_s=free_ms / 1000,
        file=FILE, line=line, wait_line=line,
    )  # fmt: skip


def test_a_lane_of_its_own_lets_a_call_pass_the_one_before_it():
    met = [
        [call(rank, 10, ended_ms=50, lane=COMM, waited_ms=(80, 80.1)) for rank in (0, 1)],
        [call(rank, 11, ended_ms=52, number=2, lane=COMM, waited_ms=(12, 52), line=4) for rank in (0, 1)],
    ]
    again = Replay(met, [samples(rank, lines={}) for rank in (0, 1)])
    assert again.step_s == pytest.approx(STEP_MS / 1000)
    gain_s = NUM * again.gain_s(Edit(own_lane=frozenset({(FILE, 4)})))
    # It is there at 13 and not at 52; 28 ms later the host waits for the first one up to 50, where it came at 80.
    assert gain_s == pytest.approx(0.030)


def test_calls_that_no_order_explains_leave_each_rank_its_own_time():
    def blocking(rank, index, began_ms):
        return call(rank, began_ms, ended_ms=began_ms + 10, index=index)

    crossed = [(blocking(0, 0, 10), blocking(1, 0, 30)), (blocking(0, 1, 30), blocking(1, 1, 10))]
    again = Replay(crossed, [samples(rank, lines={}) for rank in (0, 1)])
    assert again.step_s == pytest.approx(STEP_MS / 1000)
    assert again.gain_s(Edit(cuts={rank: each_step(60, 20) for rank in (0, 1)})) == pytest.approx(0.020)


def test_the_critical_path_names_the_rank_that_is_waited_for_and_its_line():
    ranks = [calls(rank, plan, wait_line=3, line=3) for rank, plan in enumerate(BLOCKING)]
    told = []
    for rank in (0, 1):
        head, lines = samples_head(rank)
        told.append(samples_of([head, *lines]))
    page = page_text(profile_of(told, Sources(lambda file: ""), asked_warmup=0, calls=ranks))
    assert "critical path, replayed at +0.0% of the step:\n" in page
    assert f"ms rank 0 {FILE}:2\n" in page


def samples_head(rank):
    """A rank's samples with the moment of its line 2: 20 ms into each step."""
    head = {
        "form": 1, "pid": rank, "warmup": 0, "is_last": True, "period_ns": 2 * MS, "first_step": 0,
        "bounds_ns": [k * STEP_MS * MS for k in range(NUM + 1)], "queue_ns": 0, "has_cpu_time": True,
        "loop": [[FILE, "<module>", 1]], "outputs": [], "rank": rank, "world_size": 2, "device": "cpu",
    }  # fmt: skip
    cells = {step: [30 * MS, 30 * MS, (step * STEP_MS + 20) * MS] for step in range(NUM)}
    place = {"place": [FILE, "<module>", 1, "user", 2, 2, 0, 1, "CALL"]}
    return head, [place, {"stack": [0], "flag": "", "steps": cells}, {"end": True}]

"""Schedules and the programs they become."""

import pytest

from emberward.events import Compute, Observer, Recv, Send, Wait, from_lines, to_lines
from emberward.findings import ConfigError
from emberward.plan import (
    Action,
    Pipe,
    Schedule,
    Work,
    balance,
    dualpipe_v,
    forward_only,
    gpipe,
    interleaved,
    one_f_one_b,
    pipeline_program,
    pipeline_trace,
    program_text,
    require_complete,
    schedule_from_csv,
    zb_h1,
    zb_v,
)

GRID = [
    *(gpipe(ranks, mb, chunks) for ranks in (1, 2, 4) for mb in (1, 3, 8) for chunks in (1, 2)),
    *(one_f_one_b(ranks, mb) for ranks in (1, 2, 4) for mb in (1, 3, 8)),
    *(interleaved(ranks, mb, chunks) for ranks in (1, 2, 4) for mb in (4, 8) for chunks in (2, 3)),
    *(zb_h1(ranks, mb, chunks) for ranks in (1, 2, 4) for mb in (4, 8) for chunks in (1, 2)),
    *(zb_v(ranks, mb) for ranks in (1, 2, 4) for mb in (3, 8)),
    *(dualpipe_v(ranks, mb) for ranks in (1, 2, 4) for mb in (8, 11)),
]


def names(schedule: Schedule) -> str:
    return f"{schedule.name}-{schedule.num_ranks}x{schedule.num_stages}x{schedule.num_mb}"


@pytest.mark.parametrize("schedule", GRID, ids=names)
def test_every_schedule_is_complete_and_round_trips_through_csv(schedule):
    require_complete(schedule)
    again = schedule_from_csv(schedule.to_csv(), name=schedule.name)
    assert again == schedule


@pytest.mark.parametrize("schedule", GRID, ids=names)
def test_both_ends_of_every_channel_agree_on_order_and_tensor(schedule):
    trace = pipeline_trace(schedule, Pipe.over(range(schedule.num_ranks)))
    sent: dict[tuple[int, int], list[str]] = {}
    received: dict[tuple[int, int], list[str]] = {}
    for event in trace:
        match event.body:
            case Send(peer=peer, tensor=tensor):
                sent.setdefault((event.rank, peer), []).append(tensor)
            case Recv(peer=peer, tensor=tensor):
                received.setdefault((peer, event.rank), []).append(tensor)
    assert sent == received
    ranks = schedule.stage_ranks
    crossing = 2 * schedule.num_mb * sum(ranks[stage] != ranks[stage + 1] for stage in range(len(ranks) - 1))
    assert sum(map(len, sent.values())) == crossing


@pytest.mark.parametrize("schedule", [*GRID, forward_only(gpipe(4, 3), 3)], ids=names)
def test_every_transfer_is_waited_for_once_and_a_receive_right_before_its_compute(schedule):
    pipe = Pipe.over(range(schedule.num_ranks))
    for pp_rank in range(schedule.num_ranks):
        program = pipeline_program(schedule, pipe, pp_rank)
        transfers = {event.ref for event in program if isinstance(event.body, Send | Recv)}
        waits = [event.body.on for event in program if isinstance(event.body, Wait)]
        assert sorted(waits, key=str) == sorted(transfers, key=str)
        posted = set()
        for event in program:
            if isinstance(event.body, Send | Recv):
                posted.add(event.ref)
            elif isinstance(event.body, Wait):
                assert event.body.on in posted


@pytest.mark.parametrize("schedule", [dualpipe_v(2, 8), dualpipe_v(4, 11)], ids=names)
def test_what_the_two_of_an_overlapped_pair_send_and_get_travels_while_the_other_computes(schedule):
    pipe, sent, got = Pipe.over(range(schedule.num_ranks)), 0, 0
    for pp_rank, order in enumerate(schedule.orders):
        program = pipeline_program(schedule, pipe, pp_rank)
        place = {event.body.name: at for at, event in enumerate(program) if isinstance(event.body, Compute)}
        posted = {
            event.ref: (at, event.body) for at, event in enumerate(program) if isinstance(event.body, Send | Recv)
        }
        over = {event.body.on: at for at, event in enumerate(program) if isinstance(event.body, Wait)}
        for forward, backward in schedule.pairs:
            if forward not in order:
                continue
            first, second = place[str(forward)], place[str(backward)]
            for ref, (at, body) in posted.items():
                if isinstance(body, Send) and body.tensor == str(forward):
                    assert first < at < second < over[ref]
                    sent += 1
                elif isinstance(body, Recv) and first < over[ref] < second:
                    assert at < first, "what the backward needs is on its way while the forward computes"
                    got += 1
    assert sent and got


def test_the_1f1b_program_reads_as_it_runs():
    assert str(one_f_one_b(2, 3)) == "rank 0: 0F0 0F1 0B0 0F2 0B1 0B2\nrank 1: 1F0 1B0 1F1 1B1 1F2 1B2"
    text = program_text(pipeline_program(one_f_one_b(2, 2), Pipe.over((0, 1)), 0))
    assert text.splitlines() == [
        "main   0F0",
        "pp0>1  send to 1 tag 0 (0F0)",
        "pp1>0  recv from 1 tag 3 (1B0)",
        "main   0F1",
        "pp0>1  send to 1 tag 0 (0F1)",
        "pp1>0  recv from 1 tag 3 (1B1)",
        "main   wait for pp1>0:0",
        "main   wait for pp0>1:0",
        "main   0B0",
        "main   wait for pp1>0:1",
        "main   wait for pp0>1:1",
        "main   0B1",
    ]


def test_a_program_is_a_trace_that_can_be_written_and_compared():
    trace = pipeline_trace(interleaved(2, 4), Pipe.over((0, 4), dtype="float32", shapes=((2, 8, 16),) * 3))
    again = from_lines(to_lines(trace))
    assert again == trace
    assert again.observer is Observer.PLAN
    assert again.unknown_ranks == (1, 2, 3)


def test_swapping_two_entries_changes_the_program():
    schedule = one_f_one_b(2, 4)
    order = list(schedule.orders[0])
    order[2], order[3] = order[3], order[2]
    swapped = Schedule(name="swapped", num_stages=2, num_mb=4, orders=(tuple(order), schedule.orders[1]))
    require_complete(swapped)
    pipe = Pipe.over((0, 1))
    computes = [
        [event.body.name for event in pipeline_program(each, pipe, 0) if isinstance(event.body, Compute)]
        for each in (schedule, swapped)
    ]
    assert computes[0] != computes[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the schedule's CSV is empty"),
        ("0F0,0X1\n", "cannot be read"),
        ("0F0\n1F0,1B0\n", "0B0 is missing"),
        ("0B0,0F0\n", "0B0 stands before its forward"),
        ("0F0,0B0,0F0\n", "0F0 stands twice"),
        ("0F0,0I0,0F1,0B1\n", "0W0 is missing"),
        ("0F0,0I0\n", "0W0 is missing"),
        ("0F0,0W0,0I0\n", "0W0 stands before its input part"),
        ("0F0,0I0,0W0,0B0\n", "0B0 is a second backward beside 0I0"),
        ("0F0,0B0,0I0\n", "0I0 is a second backward beside 0B0"),
        ("0F0,1F0,1B0\n1F1,0B0\n", "no stage map allows it: stage 1 lies on two ranks"),
        ("0F0,0B0\n2F0,2B0\n", "stage 1 lies on no rank"),
        ("0F0,0B0\n\n", "pipeline rank 1 has no work"),
        ("0F0,0B0,(0F1;0F2)OVERLAP_F_B\n", "cannot be read"),
        ("0F0,0I0,(0F1;0W0)OVERLAP_F_B\n", "cannot be read"),
    ],
)
def test_a_bad_csv_is_refused_by_name(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        schedule_from_csv(text)
    assert caught.value.code == "C109"


def test_a_csv_brings_its_own_stage_map_idle_cells_and_pairs():
    text = "1F0,,1B0\n0F0,(0F1;0B0)OVERLAP_F_B, ,1F1\n".replace("1F1", "0B1").replace("1B0", "1B0,1F1,1I1,1W1")
    schedule = schedule_from_csv(text)
    assert schedule.stage_ranks == (1, 0)
    assert schedule.split == {(1, 1)}
    first, second = Action(0, Work.FORWARD, 1), Action(0, Work.BACKWARD, 0)
    assert schedule.pairs == {(first, second)}
    assert schedule.orders[1] == (Action(0, Work.FORWARD, 0), first, second, Action(0, Work.BACKWARD, 1))
    assert schedule.to_csv() == "1F0,1B0,1F1,1I1,1W1\n0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"
    assert schedule.needs_of(Action(0, Work.BACKWARD, 1)) == [first, Action(1, Work.INPUT, 1)]


def test_the_gradient_leaves_between_the_two_parts_of_a_backward():
    text = program_text(pipeline_program(schedule_from_csv("0F0,0B0\n1F0,1I0,1W0\n"), Pipe.over((0, 1)), 1))
    assert text.splitlines() == [
        "pp0>1  recv from 0 tag 0 (0F0)",
        "main   wait for pp0>1:0",
        "main   1F0",
        "main   1I0",
        "pp1>0  send to 0 tag 3 (1I0)",
        "main   1W0",
        "main   wait for pp1>0:0",
    ]


def test_interleaved_needs_whole_rounds_and_says_which():
    with pytest.raises(ConfigError, match=r"a multiple of layout.pp=4, e.g. 4 or 8"):
        interleaved(4, 6)


def test_action_text_is_torchs():
    assert Action.from_text("12B3") == Action(12, Work.BACKWARD, 3)
    with pytest.raises(ValueError, match="found '0SEND'"):
        Action.from_text("0SEND")


def test_layers_are_balanced_by_cost():
    assert balance([1, 1, 1, 1], 2) == (2, 2)
    assert balance([5, 1, 1, 1, 1, 1], 2) == (1, 5)
    assert balance([1, 1, 1, 1, 5], 3)[-1] == 1
    assert balance([2, *[1] * 68, 2], 12) == (5, *[6] * 10, 5)
    with pytest.raises(ValueError, match="cannot cut 2 items into 3 stages"):
        balance([1, 1], 3)

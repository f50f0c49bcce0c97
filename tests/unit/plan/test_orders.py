"""The built-in schedules: torch's own orders, their idle time and their memory, and which sizes they refuse."""

import pytest
from torch.distributed.pipelining import schedules as torch_schedules

from emberward.findings import ConfigError
from emberward.perf import Part, run_schedule
from emberward.plan import (
    SCHEDULES,
    Schedule,
    Work,
    bubble_of,
    dualpipe_v,
    gpipe,
    interleaved,
    looped_bfs,
    one_f_one_b,
    require_complete,
    zb_h1,
    zb_v,
)
from emberward.report import slots_of


def torchs(name: str, pp: int, num_mb: int, chunks: int) -> list[str]:
    """Each rank's order by torch, without idle cells. No process group is made: the orders need sizes alone."""
    orders = []
    for rank in range(pp):
        made = object.__new__(getattr(torch_schedules, name))
        made.pp_group_size, made.rank, made.n_local_stages = pp, rank, chunks
        made._num_stages = made.num_stages = pp * chunks
        made._stages, made._n_microbatches = [None] * chunks, num_mb
        made.number_of_rounds = max(1, num_mb // pp)
        made.microbatches_per_round = num_mb // made.number_of_rounds
        orders.append(" ".join(str(each) for each in made._calculate_single_rank_operations(rank) if each is not None))
    return orders


@pytest.mark.parametrize("pp", [2, 4, 8])
@pytest.mark.parametrize(
    ("name", "make", "cases"),
    [
        ("ScheduleLoopedBFS", looped_bfs, [(1, 1), (3, 2)]),
        ("ScheduleInterleaved1F1B", interleaved, [(1, 2), (2, 2), (3, 3)]),
        ("ScheduleInterleavedZeroBubble", zb_h1, [(1, 1), (1, 2), (2, 2), (3, 1), (3, 3)]),
        ("ScheduleZBVZeroBubble", zb_v, [(1, 2), (2, 2), (3, 2)]),
        ("ScheduleDualPipeV", dualpipe_v, [(2, 2), (3, 2)]),
    ],
)
def test_the_orders_are_torchs(name, make, cases, pp):
    for rounds, chunks in cases:
        schedule = make(pp, rounds * pp, chunks)
        assert [" ".join(schedule.cells(rank)) for rank in range(pp)] == torchs(name, pp, rounds * pp, chunks)


def test_torchs_reader_takes_our_text_and_gives_the_same():
    for schedule in (zb_v(4, 8), dualpipe_v(4, 9), zb_h1(2, 4, 2)):
        cells = [cell for row in schedule.to_csv().splitlines() for cell in row.split(",")]
        assert [str(torch_schedules._Action.from_str(cell)) for cell in cells] == cells


def idle_s(schedule: Schedule, forward: float, to_input: float, to_weight: float) -> float:
    """Idle seconds of a rank whose layers take so long for the parts of one micro-batch."""
    chunks = schedule.num_stages // schedule.num_ranks
    cost = {Part.FORWARD: forward, Part.INPUT: to_input, Part.WEIGHT: to_weight, Part.BACKWARD: to_input + to_weight}
    timeline = run_schedule(
        slots_of(schedule), cost_s=lambda slot: cost[slot.part] / chunks, transfer_s=lambda _: 0.0, is_blocking=False
    )
    return timeline.seconds - schedule.num_mb * (forward + to_input + to_weight)


def kept(schedule: Schedule) -> list[float]:
    """Most micro-batches that each rank keeps, counted over all its layers."""
    most = []
    for order in schedule.orders:
        held = peak = 0
        for action in order:
            held += {Work.FORWARD: 1, Work.INPUT: 0}.get(action.work, -1)
            peak = max(peak, held)
        most.append(peak * schedule.num_ranks / schedule.num_stages)
    return most


@pytest.mark.parametrize("parts", [(1, 1, 1), (4, 5, 3), (3, 2, 1)])
@pytest.mark.parametrize("p", [2, 4, 8])
def test_idle_time_and_memory_are_those_of_the_table(p, parts):
    """docs/schedules.md. F, I and W are a rank's seconds for a micro-batch over all its layers."""
    f, i, w = parts
    m = 3 * p
    table = [
        (gpipe(p, m), (p - 1) * (f + i + w), [m] * p),
        (one_f_one_b(p, m), (p - 1) * (f + i + w), [p - r for r in range(p)]),
        (interleaved(p, m, 2), (p - 1) * (f + i + w) / 2, [(2 * (p - r - 1) + p + 1) / 2 for r in range(p)]),
        (looped_bfs(p, m, 2), (p - 1) * (f + i + w) / 2, [m] * p),
        (zb_h1(p, m), (p - 1) * (f + i - w), [p] * p),
        (zb_h1(p, m, 3), (p - 1) * (f + i - w) / 3, [p] * p),
    ]
    if parts == (1, 1, 1):
        # These two are drawn for equal parts; a pair is counted as one thread runs it, one after the other.
        table += [
            (zb_v(p, m), (p - 1) * max(f, i) / 2, [p] * p),
            (dualpipe_v(p, m), (p - 1) * (f + i - w) / 2, [p + 0.5] * p),
        ]
    for schedule, idle, peaks in table:
        assert idle_s(schedule, *parts) == pytest.approx(idle), schedule.name
        assert kept(schedule) == peaks, schedule.name


def test_the_share_of_idle_time_is_what_the_timeline_says():
    for schedule in (one_f_one_b(4, 8), interleaved(4, 8, 2), zb_h1(4, 8), zb_v(4, 8), dualpipe_v(2, 4)):
        idle = idle_s(schedule, 1, 1, 1)
        assert bubble_of(schedule) == pytest.approx(idle / (idle + 3 * schedule.num_mb)), schedule.name
    assert bubble_of(one_f_one_b(4, 8)) == pytest.approx(3 / 11)
    assert bubble_of(interleaved(4, 8, 2)) == pytest.approx(3 / 19)


@pytest.mark.parametrize("num_mb", range(1, 14))
def test_every_number_of_micro_batches_gives_a_whole_schedule_or_a_number_that_does(num_mb):
    for name, make in SCHEDULES.items():
        chunks = 1 if name == "1f1b" else 2
        for pp in (1, 2, 3, 4):
            try:
                schedule = make(pp, num_mb, chunks)
            except ConfigError as error:
                assert error.code == "C104"
                legal = [int(word) for word in str(error.expected).replace(",", " ").split() if word.isdigit()]
                require_complete(make(pp, legal[-1], chunks))
            else:
                require_complete(schedule)
                assert bubble_of(schedule) >= 0


def test_a_v_has_its_first_and_last_stage_on_rank_0():
    schedule = zb_v(3, 6)
    assert schedule.stage_ranks == (0, 1, 2, 2, 1, 0)
    assert [schedule.stages_of(rank) for rank in range(3)] == [(0, 5), (1, 4), (2, 3)]
    with pytest.raises(ConfigError, match="schedule zb_v holds two stages a rank"):
        zb_v(3, 6, 1)

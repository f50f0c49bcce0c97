"""Of ranks whose calls differ: where what they executed parts, and which of them left what it had done before.

Each program runs for real, once a rank, under the recorder of statements; a call is `call(SUM)` and returns at once.
"""

import functools
import textwrap

import pytest

from emberward.events import Barrier, Collective, CollectiveOp, Group, Observer, Recv, Send, Trace
from emberward.findings import Cause
from emberward.match import check, decisions_inside
from emberward.sources._site import SiteFinder
from emberward.sources._tape import Tape, Transport
from emberward.sources.script._flow import read_flow
from emberward.sources.script._statements import MAX_DEPTH, StatementRecorder


def executed(text, tmp_path, num_ranks=2):
    """(trace, what each rank executed) of a program."""
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(text).lstrip())
    code = compile(program.read_text(), str(program), "exec")
    group = Group(ranks=tuple(range(num_ranks)), label="world")
    bodies = {
        "FEW": Collective(op=CollectiveOp.ALL_REDUCE, group=group, dtype="float32", numel=7),
        "to": [Send(peer=peer, dtype="float32", numel=8) for peer in range(num_ranks)],
        "of": [Recv(peer=peer, dtype="float32", numel=8) for peer in range(num_ranks)],
        "SUM": Collective(op=CollectiveOp.ALL_REDUCE, group=group, dtype="float32", numel=8),
        "ALL": Collective(op=CollectiveOp.ALL_GATHER, group=group, dtype="float32", numel=8),
        "BARRIER": Barrier(group=group),
    }
    events, flows = {}, {}
    for rank in range(num_ranks):
        finder = SiteFinder(roots=(tmp_path,), program=lambda: None)
        tape = Tape(rank, find_site=finder.here, transport=Transport.GLOO)
        recorder = StatementRecorder(finder, lambda tape=tape: len(tape))
        recorder.start()
        try:
            exec(code, {"rank": rank, "call": functools.partial(tape.call, is_blocking=True), **bodies})
        finally:
            recorder.stop()
            recorder.write(tmp_path / "flow.json", tape.numbers())
        events[rank], flow = tape.events(), read_flow(tmp_path / "flow.json", (tmp_path,))
        flows |= {} if flow is None else {rank: flow}
    return Trace(world_size=num_ranks, events=events, observer=Observer.DRY_RUN), flows


def judged(text, tmp_path, num_ranks=2):
    """(culprits, cause, line) of the finding on a program."""
    trace, flows = executed(text, tmp_path, num_ranks)
    (found,) = check(trace, flows=flows).findings
    return found.culprit_ranks, found.cause, int(found.site.rpartition(":")[2])


def test_the_rank_that_skips_one_of_many_like_calls_is_named_at_its_decision(tmp_path):
    program = """
    for step in range(8):
        if rank == 0 and step == 3:
            continue
        call(SUM)
    call(BARRIER)
    """
    assert judged(program, tmp_path) == ((0,), Cause.SKIPPED_COLLECTIVE, 2)


def test_the_rank_that_leaves_a_loop_by_itself_is_named_at_its_decision(tmp_path):
    program = """
    def is_bad(step):
        return rank == 1 and step == 4

    def train():
        for step in range(9):
            call(SUM)
            if is_bad(step):
                break
    train()
    call(BARRIER)
    """
    assert judged(program, tmp_path) == ((1,), Cause.SKIPPED_COLLECTIVE, 7)


def test_a_loop_may_stand_on_one_line(tmp_path):
    program = """
    for step in range(3): call(SUM)
    for step in range(2):
        if rank == 1 and step == 1: call(SUM)
        call(SUM)
    call(BARRIER)
    """
    assert judged(program, tmp_path) == ((1,), Cause.EXTRA_COLLECTIVE, 3)


def test_the_rank_with_fewer_rounds_has_less_data(tmp_path):
    program = """
    for step in range(5 - rank):
        call(SUM)
    call(SUM)
    """
    assert judged(program, tmp_path) == ((1,), Cause.UNEVEN_DATA, 1)


def test_a_call_under_a_condition_that_one_rank_alone_meets_is_one_too_many(tmp_path):
    program = """
    def save():
        call(ALL)

    for step in range(4):
        call(SUM)
        if step % 2 == 1:
            if rank == 0:
                save()
    call(BARRIER)
    """
    assert judged(program, tmp_path) == ((0,), Cause.EXTRA_COLLECTIVE, 2)


def test_a_call_that_the_same_statement_made_before_was_left_out_and_is_not_one_too_many(tmp_path):
    program = """
    def mean():
        call(SUM)

    for step in range(2):
        mean()
        has_rows = step == 0 or rank == 0
        if has_rows:
            for part in range(2):
                call(ALL)
    call(BARRIER)
    """
    # Rank 1 goes another way than before; on the first round nobody could tell.
    assert judged(program, tmp_path) == ((1,), Cause.SKIPPED_COLLECTIVE, 7)
    found = judged("for part in range(2):\n    call(ALL)\n    if rank == 0:\n        call(ALL)\n", tmp_path)
    assert found == ((0,), Cause.EXTRA_COLLECTIVE, 4)


def test_a_retry_repeats_the_call_in_the_function_that_is_run_again(tmp_path):
    program = """
    def attempt(key, tries):
        call(SUM)
        if rank == 1 and key == 3 and tries == 0:
            raise ValueError(key)

    def retried(key):
        for tries in range(3):
            try:
                return attempt(key, tries)
            except ValueError:
                pass

    for key in range(6):
        retried(key)
    call(BARRIER)
    """
    assert judged(program, tmp_path) == ((1,), Cause.EXTRA_COLLECTIVE, 2)


def test_a_callback_that_makes_no_call_may_have_decided(tmp_path):
    program = """
    import functools

    def on_step(step):
        if rank == 0 and step == 2:
            return True
        return False

    def rounds(limit):
        return any(call(SUM) is None or on_step(step) for step in range(limit))

    rounds(6)
    call(BARRIER)
    """
    assert judged(program, tmp_path) == ((0,), Cause.SKIPPED_COLLECTIVE, 4)


def test_the_majority_decides_who_departs_and_the_statements_where(tmp_path):
    program = """
    mine = rank != 2
    if mine:
        call(ALL)
    call(SUM)
    """
    assert judged(program, tmp_path, num_ranks=3) == ((2,), Cause.SKIPPED_COLLECTIVE, 2)


def test_a_call_that_both_ways_make_is_not_where_they_part(tmp_path):
    program = """
    if rank == 0:
        call(BARRIER)
    prepared = 1
    if rank != 0:
        call(BARRIER)
    for step in range(4):
        while True:
            call(SUM)
            break
        if rank == 1 and step == 2:
            call(SUM)
    """
    assert judged(program, tmp_path) == ((1,), Cause.EXTRA_COLLECTIVE, 11)


@pytest.mark.parametrize("part", ["call(SUM)", "[call(SUM)\n     for _ in range(2)]"])
def test_ranks_that_take_two_ways_to_the_same_calls_have_no_fault(tmp_path, part):
    program = f"if rank == 0:\n    {part}\nelse:\n    {part}\nwith open('/dev/null') as sink:\n    call(SUM)\n"
    trace, flows = executed(program, tmp_path)
    assert check(trace, flows=flows).is_proof


def test_two_operations_at_one_statement_stay_a_tie(tmp_path):
    trace, flows = executed("call((SUM, ALL)[rank])\n", tmp_path)
    (found,) = check(trace, flows=flows).findings
    assert (found.code, found.culprit_ranks, found.waiting_ranks) == ("M101", (), (0, 1))


def test_functions_below_the_greatest_depth_count_as_the_statement_that_called_them(tmp_path):
    program = f"""
    def down(n):
        return down(n - 1) if n else call(SUM)

    down({2 * MAX_DEPTH})
    if rank == 1:
        down({2 * MAX_DEPTH})
    """
    assert judged(program, tmp_path) == ((1,), Cause.EXTRA_COLLECTIVE, 2)


def test_of_a_program_that_ends_the_trace_no_statements_are_told(tmp_path):
    _, flows = executed("call(SUM)\nimport sys\nsys.settrace(None)\ncall(SUM)\n", tmp_path)
    assert flows == {}


def test_recursion_without_end_is_the_programs_error(tmp_path):
    with pytest.raises(RecursionError):
        executed("def down():\n    down()\ndown()\n", tmp_path)


def test_what_a_helper_without_calls_does_each_time_is_not_kept(tmp_path):
    program = """
    def helper(n):
        return n + 1

    for n in range(200):
        helper(n)
    call(SUM)
    """
    _, flows = executed(program, tmp_path)
    (module,) = flows[0].program.items[0].inner
    loop = next(item for item in module.items if hasattr(item, "rounds"))
    assert len(loop.rounds) == 201
    assert not any(step.inner for steps in loop.rounds for step in steps)


def test_the_stage_that_skips_a_batch_by_itself_is_named_at_its_decision(tmp_path):
    program = """
    for step in range(6):
        if rank == 0 and step == 4:
            continue
        if rank == 0:
            call(to[1])
            call(of[1])
        else:
            call(of[0])
            call(to[0])
    """
    assert judged(program, tmp_path) == ((0,), Cause.UNMATCHED_P2P, 2)


def test_of_a_server_and_its_worker_the_one_whose_round_is_not_like_its_others_departs(tmp_path):
    program = """
    def serve():
        for _ in range(5):
            call(of[1])
            call(to[1])

    def work():
        for step in range(5):
            if step == 3:
                continue
            call(to[0])
            call(of[0])

    serve() if rank == 0 else work()
    """
    assert judged(program, tmp_path) == ((1,), Cause.UNMATCHED_P2P, 8)


def test_the_stage_between_two_that_both_miss_it_departs(tmp_path):
    program = """
    def run(train):
        if rank == 0:
            call(to[1])
        elif rank == 2:
            call(of[1])
        elif train:
            call(of[0])
            call(to[2])

    for step in range(4):
        run(True)
    run(False)
    """
    assert judged(program, tmp_path, num_ranks=3) == ((1,), Cause.UNMATCHED_P2P, 12)


def test_transfers_that_two_roles_make_in_their_own_order_have_no_fault(tmp_path):
    program = """
    if rank == 0:
        for _ in range(3):
            call(to[1])
        for _ in range(3):
            call(of[1])
    else:
        for _ in range(3):
            call(of[0])
        for _ in range(3):
            call(to[0])
    """
    trace, flows = executed(program, tmp_path)
    assert check(trace, flows=flows).is_proof


def test_the_call_that_is_not_as_its_line_made_it_before_is_the_odd_one(tmp_path):
    program = """
    for step in range(5):
        call(FEW if rank == 1 and step == 3 else SUM)
    """
    trace, flows = executed(program, tmp_path)
    (found,) = check(trace, flows=flows).findings
    assert (found.code, found.culprit_ranks, found.cause) == ("M102", (1,), Cause.SHAPE)
    assert found.site == "train.py:2"


def test_a_first_call_of_two_sizes_stays_a_tie_with_a_line(tmp_path):
    trace, flows = executed("call((SUM, FEW)[rank])\n", tmp_path)
    (found,) = check(trace, flows=flows).findings
    assert (found.code, found.culprit_ranks, found.site) == ("M102", (), "train.py:1")


def test_what_a_rank_calls_that_was_cut_is_no_skipped_call(tmp_path):
    trace, flows = executed("for step in range(4 - 2 * rank):\n    call(SUM)\n", tmp_path)
    assert check(trace, flows=flows, open_ranks=frozenset({1})).findings == ()
    (found,) = check(trace, flows=flows, open_ranks=frozenset({0})).findings
    assert found.culprit_ranks == (1,)


def test_a_callback_of_a_statement_that_raises_has_decided_before(tmp_path):
    program = """
    def on_step(step):
        if rank == 0 and step == 2:
            return None
        return step

    for step in range(3):
        call(SUM)
        sum(map(on_step, [step]))
    """
    with pytest.raises(TypeError):
        executed(program, tmp_path)
    flow = read_flow(tmp_path / "flow.json", (tmp_path,))
    assert decisions_inside(flow.program, "train.py:8") == ("train.py:2",)
    assert decisions_inside(flow.program, "train.py:7") == ()

"""The judge of live jobs on looks made by hand: each fault with its words, and its look-alike without an alarm."""

import json
import random
from dataclasses import replace

import pytest
from unit.sources.live_snapshots import (
    ALL_REDUCE,
    C10D,
    NEW_GROUP,
    QUEUE_GET,
    RECEIVE,
    SHUTDOWN,
    STORE_GET,
    helper,
    moment,
    rank_snapshot,
    ring,
    snapshot,
    stack,
    twice,
    waiting,
)

from emberward.diagnose import Frame, ThreadStack
from emberward.diagnose.live import ProcessState, RankSnapshot, Snapshot, WaitingIn, join_snapshots
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.live import judge_snapshots, resumed_finding

TEXT = {20: "    dist.all_reduce(x)", 30: "    time.sleep(40)", 31: "    with guard:", 40: "    jobs.put(x)"}


def errors(found: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in found if finding.severity is Severity.ERROR]


def line_of(frame: Frame) -> str | None:
    return TEXT.get(frame.line or 0) if frame.file == "/job/train.py" else None


def judged(*ranks: RankSnapshot, **options: object) -> tuple[Finding, ...]:
    return judge_snapshots(*twice(*ranks), line_of=line_of, **options)  # type: ignore[arg-type]


def only(findings: tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, [finding.message for finding in findings]
    return findings[0]


def away(rank: int, line: int, *inner: tuple[str, str, int], still_s: float = 6.0, **changes: object) -> RankSnapshot:
    """A rank that is not in the call that the others wait in."""
    facts = ring(num_done=6, is_inside=False, still_s=still_s)
    return rank_snapshot(rank, stack(1000 + rank, line, *inner), facts, **changes)


OTHERS = (waiting(0), waiting(1), waiting(3))


def test_a_stopped_rank_is_an_error_in_these_words():
    finding = only(judged(*OTHERS, replace(waiting(2), process=away(2, 20, state=ProcessState.STOPPED).process)))
    assert finding.code == "H125"
    assert finding.message == "rank 2 is stopped by a signal or a debugger, while ranks 0, 1, 3 wait"
    assert (finding.kind, finding.cause, finding.severity) == (Kind.HANG, Cause.STOPPED, Severity.ERROR)
    assert finding.evidence[0] == "rank 2: process 1002 on ember is stopped"
    assert finding.next == "kill -CONT 1002, or end the job and start it again"
    assert finding.site == "train.py:20"


def test_a_rank_that_was_stopped_and_goes_on_is_no_alarm():
    stopped = snapshot(*OTHERS, replace(waiting(2), process=away(2, 20, state=ProcessState.STOPPED).process))
    late = snapshot(*(replace(r, ring=ring(num_done=9, is_inside=True)) for r in (*OTHERS, waiting(2))), taken_s=104.0)
    assert errors(judge_snapshots(stopped, late, line_of=line_of)) == []


def test_a_rank_that_sleeps_is_a_notice_until_its_limit():
    finding = only(judged(*OTHERS, away(2, 30, waiting_in=WaitingIn.NANOSLEEP)))
    assert (finding.cause, finding.culprit_ranks, finding.severity) == (Cause.SLEEP, (2,), Severity.NOTICE)
    assert (
        "it has stood still for 6 s; up to 75 s it could be slow and alive (by this job's own history)"
        in finding.evidence
    )
    late = only(judged(*OTHERS, away(2, 30, waiting_in=WaitingIn.NANOSLEEP, still_s=80.0)))
    assert late.severity is Severity.WARNING, "time alone makes no error"
    assert late.message.startswith("rank 2 has not arrived yet: ranks 0, 1, 3 wait for it; it sleeps")


def asleep(wakes_in_s):
    """Rank 2, which has stood still for 6 s of 75 and sleeps for another `wakes_in_s`."""
    seen = away(2, 30, waiting_in=WaitingIn.NANOSLEEP)
    main = replace(seen.process.threads[0], wakes_in_s=wakes_in_s)
    return replace(seen, process=replace(seen.process, threads=(main,)))


@pytest.mark.parametrize(
    ("left_s", "severity"), [(9_990.0, Severity.WARNING), (70.0, Severity.WARNING), (5.0, Severity.NOTICE)]
)
def test_a_sleep_that_ends_behind_the_limit_is_a_warning_at_once_and_a_short_one_is_not(left_s, severity):
    finding = only(judge_snapshots(None, snapshot(*OTHERS, asleep(left_s)), line_of=line_of))
    assert (finding.cause, finding.culprit_ranks, finding.severity) == (Cause.SLEEP, (2,), severity)
    assert f"the sleep that it is in ends in {left_s:.0f} s: the kernel has the time" in finding.evidence
    assert finding.severity is only(judged(*OTHERS, asleep(left_s))).severity, "and a second snapshot says the same"


def test_a_lock_without_time_out_is_proved_by_two_looks_and_not_by_one():
    stuck = away(2, 31, waiting_in=WaitingIn.FUTEX)
    finding = only(judged(*OTHERS, stuck))
    assert (finding.cause, finding.severity, finding.site) == (Cause.LOCK, Severity.ERROR, "train.py:31")
    assert finding.message.startswith("rank 2 never arrived: "), "it cannot come any more"
    assert (
        "rank 2 waits without a time-out, and no thread or child of it moves: nobody is left to wake it"
        in finding.evidence
    )
    first = only(judge_snapshots(None, snapshot(*OTHERS, stuck), line_of=line_of))
    assert first.severity is Severity.NOTICE


@pytest.mark.parametrize("why", ["a time-out", "a thread that reads", "the call went on"])
def test_a_lock_that_somebody_may_still_free_is_no_alarm(why):
    stuck = away(2, 31, waiting_in=WaitingIn.FUTEX_TIMED if why == "a time-out" else WaitingIn.FUTEX)
    if why == "a thread that reads":
        stacks = stuck.stacks[0]
        reader = helper(77, 30)
        stuck = replace(stuck, stacks=(replace(stacks, threads=(*stacks.threads, reader)),))
    early, late = twice(*OTHERS, stuck)
    if why == "the call went on":
        late = replace(
            late, ranks={r: replace(s, ring=ring(num_done=8, is_inside=r != 2)) for r, s in late.ranks.items()}
        )
    assert errors(judge_snapshots(early, late, line_of=line_of)) == []


def test_a_rank_that_computes_is_a_notice_though_its_stack_looks_like_a_lock():
    early = snapshot(*OTHERS, away(2, 31, waiting_in=WaitingIn.FUTEX, ticks=100))
    late = snapshot(*OTHERS, away(2, 31, waiting_in=WaitingIn.FUTEX, ticks=400), taken_s=104.0)
    finding = only(judge_snapshots(early, late, line_of=line_of))
    assert finding.severity is Severity.NOTICE
    assert "rank 2: between two snapshots 4 s apart its main thread used 75% of a core" in finding.evidence


def test_a_group_that_one_rank_does_not_create_is_an_error_in_these_words():
    creators = [rank_snapshot(r, stack(1000 + r, 50, *NEW_GROUP), ring(num_done=6, is_inside=False)) for r in (0, 1, 3)]
    finding = only(judged(*creators, waiting(2)))
    assert finding.code == "H129"
    assert finding.message == "rank 2 does not create the group that ranks 0, 1, 3 create at train.py:50"
    assert (finding.kind, finding.cause, finding.site) == (Kind.MISSING, Cause.MISSING_GROUP, "train.py:20")
    assert finding.severity is Severity.ERROR


EXPERTS = "1,3,5,7#0"


@pytest.mark.parametrize(
    ("made_by", "who"),
    [((0, 1, 2, 4, 5, 6, 7), (3,)), ((0, 1, 2, 5, 7), (3,)), ((1, 5, 7), (1, 5, 7))],
    ids=["all but one", "two outsiders did not come", "creators alone"],
)
def test_of_a_group_s_members_the_one_that_does_not_create_it_is_named(made_by, who):
    """Ranks outside of the group pass through its creation: that they wait elsewhere makes nobody guilty."""
    ranks = []
    for r in range(8):
        facts = ring(num_done=6, is_inside=r in (0, 2, 3, 4, 6), world=8)
        facts = replace(facts, groups_made=(EXPERTS,) if r in made_by else ())
        if r in (1, 5, 7):
            facts = replace(facts, creating="train.py:50", creating_ranks=(1, 3, 5, 7))
            ranks.append(rank_snapshot(r, stack(1000 + r, 50, *NEW_GROUP), facts))
        else:
            ranks.append(rank_snapshot(r, stack(1000 + r, 20, *ALL_REDUCE), facts))
    finding = only(judged(*ranks))
    assert (finding.code, finding.culprit_ranks, finding.severity) == ("H129", who, Severity.ERROR)


@pytest.mark.parametrize(
    ("made", "who"),
    [
        (("a#0", "b#0", "c#0"), None),
        (("a#0", "c#0"), (3,)),
        (("c#0",), None),  # what it created before the first one that its ring still holds, nobody knows
    ],
    ids=["all", "left out", "unknown"],
)
def test_who_left_out_a_group_rounds_ago_is_named_when_all_create_the_next_one(made, who):
    """Torch names a group by a count: who made fewer waits under another name, though all are in the creation."""
    ranks = []
    for r in range(4):
        own = made if r == 3 else ("a#0", "b#0", "c#0")
        facts = replace(ring(num_done=6, is_inside=False), groups_made=own, creating="train.py:50")
        facts = replace(facts, creating_ranks=(0, 1, 2, 3))
        ranks.append(rank_snapshot(r, stack(1000 + r, 50, *NEW_GROUP), facts))
    found = errors(judged(*ranks))
    assert [each.culprit_ranks for each in found] == ([] if who is None else [who])
    if found:
        assert found[0].message == (
            "rank 3 did not create the group b#0 that the others have created; the next one, which ranks 0, 1, 2 "
            "create at train.py:50, has another name there"
        )


def test_a_rank_that_prepares_data_while_the_others_create_a_group_is_no_alarm():
    creators = [rank_snapshot(r, stack(1000 + r, 50, *NEW_GROUP), ring(num_done=6, is_inside=False)) for r in (1, 2, 3)]
    findings = judged(away(0, 30, waiting_in=WaitingIn.NANOSLEEP), *creators)
    assert [f.severity for f in findings] == [Severity.NOTICE]
    assert findings[0].culprit_ranks == (0,)


def test_a_dead_thread_that_the_main_thread_waits_for_is_an_error_in_these_words():
    facts = ring(
        num_done=6, is_inside=False, moments=(moment("thread_died", "RuntimeError: cannot decode", "train.py:72"),)
    )
    victim = rank_snapshot(2, stack(1002, 40, *QUEUE_GET), facts, waiting_in=WaitingIn.FUTEX)
    finding = only(judged(*OTHERS, victim))
    assert finding.code == "H131"
    assert finding.message == (
        "a thread of rank 2 died (RuntimeError: cannot decode) and its main thread waits at train.py:40; "
        "ranks 0, 1, 3 wait for it"
    )
    assert (finding.cause, finding.site, finding.severity) == (Cause.THREAD_DIED, "train.py:72", Severity.ERROR)


def test_a_dead_thread_that_nobody_waits_for_is_not_blamed():
    facts = ring(num_done=6, is_inside=False, moments=(moment("thread_died", "RuntimeError: a logger", "train.py:72"),))
    finding = only(judged(*OTHERS, rank_snapshot(2, stack(1002, 30), facts, waiting_in=WaitingIn.NANOSLEEP)))
    assert (finding.code, finding.cause, finding.severity) == ("H101", Cause.SLEEP, Severity.NOTICE)


LANE_WAIT = (("wait", "/env/emberward/lanes/_task.py", 110), ("outcome", "/env/emberward/lanes/_task.py", 120))
LANE_WORK = (("run", "/env/emberward/lanes/_task.py", 140), ("Lane._work", "/env/emberward/lanes/_lane.py", 330))


LANE_IDLE = (Frame(function="Lane._work", file="/env/emberward/lanes/_lane.py", line=320),)


def lane_thread(name: str, *task: tuple[str, str, int]) -> ThreadStack:
    frames = tuple(Frame(function=f, file=file, line=line) for f, file, line in (*task, *LANE_WORK))
    return ThreadStack(name=f"lane {name}", os_thread_id=77, is_active=False, frames=frames)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_lane_that_does_not_end_its_task_is_named_in_these_words(is_late):
    facts = ring(num_done=6, is_inside=False, still_s=80.0 if is_late else 6.0)
    task = lane_thread("metrics", ("upload", "/job/train.py", 30))
    idle = replace(task, name="lane idle", frames=LANE_IDLE)
    victim = rank_snapshot(2, stack(1002, 40, *LANE_WAIT), facts, task, idle, waiting_in=WaitingIn.FUTEX)
    finding = only(judged(*OTHERS, victim))
    assert finding.code == "H132"
    assert finding.message == (
        "lane metrics of rank 2 is in a task at train.py:30 and its main thread waits for it at train.py:40; "
        "ranks 0, 1, 3 wait for it"
    )
    assert (finding.cause, finding.site, finding.culprit_ranks) == (Cause.SLEEP, "train.py:30", (2,))
    assert finding.evidence[0] == "lane metrics: sleeps in upload() at train.py:30"
    assert finding.severity is (Severity.WARNING if is_late else Severity.NOTICE), "it may come by itself"


def test_a_lane_for_which_nobody_waits_is_not_blamed():
    facts = ring(num_done=6, is_inside=False)
    task = lane_thread("metrics", ("upload", "/job/train.py", 30))
    finding = only(judged(*OTHERS, rank_snapshot(2, stack(1002, 31), facts, task, waiting_in=WaitingIn.FUTEX)))
    assert (finding.code, finding.cause) == ("H101", Cause.LOCK)


def test_a_key_that_nobody_is_left_to_set_is_an_error():
    finding = only(judged(*OTHERS, away(2, 50, *STORE_GET)))
    assert (finding.cause, finding.culprit_ranks, finding.severity) == (Cause.STORE_WAIT, (2,), Severity.ERROR)
    assert "nobody is left to set the key: ranks 0, 1, 3 wait too" in finding.evidence


def test_a_key_that_a_busy_rank_may_still_set_is_no_alarm():
    busy = away(0, 30, waiting_in=WaitingIn.NANOSLEEP)
    findings = judged(busy, waiting(1), away(2, 50, *STORE_GET), waiting(3))
    assert [(f.culprit_ranks, f.severity) for f in findings] == [((0,), Severity.NOTICE)]


def buffered(rank: int) -> RankSnapshot:
    main, server = stack(1000 + rank, 40, *QUEUE_GET), helper(2000 + rank, 60, *RECEIVE)
    return rank_snapshot(rank, main, ring(num_done=6, is_inside=False, world=2), server, waiting_in=WaitingIn.FUTEX)


def test_a_cycle_through_a_bounded_buffer_is_an_error_in_these_words():
    finding = only(judged(buffered(0), buffered(1)))
    assert finding.code == "H133"
    assert finding.message == (
        "ranks 0, 1 wait for a buffer that a thread of their own would free, and that waits for another rank; "
        "no one rank is guilty"
    )
    assert (finding.kind, finding.cause, finding.culprit_ranks) == (Kind.DEADLOCK, Cause.CYCLE_CREDIT, ())
    assert finding.cycle is not None
    assert [member.rank for member in finding.cycle] == [0, 1]
    assert finding.severity is Severity.ERROR


def test_a_full_buffer_whose_peer_is_only_busy_is_no_alarm():
    busy = rank_snapshot(1, stack(1001, 30), ring(num_done=6, is_inside=False, world=2), waiting_in=WaitingIn.NANOSLEEP)
    assert errors(judged(buffered(0), busy)) == []


def test_a_rank_that_is_gone_is_named_and_its_victim_is_not():
    echo = ring(num_done=6, is_inside=True, moments=(moment("exception", "RuntimeError: Connection closed by peer"),))
    ranks = (
        waiting(0),
        replace(waiting(1), ring=echo),
        replace(waiting(2), process=away(2, 0, state=ProcessState.GONE).process),
    )
    finding = only(judge_snapshots(*twice(*ranks), line_of=line_of, exits={2: -9}))
    assert (finding.code, finding.culprit_ranks, finding.cause) == ("L102", (2,), Cause.KILLED)
    assert finding.message == "rank 2 died while rank 0 waits: killed by SIGKILL"


@pytest.mark.parametrize(
    ("last_alive_s", "named"),
    [(2.0, [2]), (9.0, [2, 3])],
    ids=["ended by the launcher after it", "gone before it"],
)
def test_who_is_gone_without_a_word_after_a_failure_was_ended_for_it(last_alive_s, named):
    failed = replace(
        waiting(2), ring=ring(num_done=6, is_inside=False, moments=(moment("exception", "IndexError: 131", "a.py:7"),))
    )
    silent = gone(3, heartbeat_age_s=last_alive_s)
    found = judged(waiting(0), waiting(1), failed, silent)
    assert sorted(rank for finding in found for rank in finding.culprit_ranks) == named
    if named == [2]:
        assert found[0].message == "rank 2 died while ranks 0, 1 wait: IndexError: 131; its process is still there"
        assert found[0].evidence[0].startswith("rank 3 then failed as a consequence: its process is gone")


@pytest.mark.parametrize(
    ("code", "text", "cause"),
    [
        (-11, None, Cause.SEGFAULT),
        (-9, None, Cause.KILLED),
        (1, "MemoryError: ", Cause.OUT_OF_MEMORY),
        (1, "OSError: [Errno 28] No space left on device", Cause.DISK_FULL),
        (1, "ValueError: a label", Cause.EXCEPTION),
        (3, None, Cause.MAIN_EXITED),
        (None, None, Cause.KILLED),
    ],
)
def test_the_cause_of_a_death(code, text, cause):
    said = () if text is None else (moment("exception", text, "train.py:30"),)
    gone = replace(
        waiting(2),
        process=away(2, 0, state=ProcessState.GONE).process,
        ring=ring(num_done=6, is_inside=True, moments=said),
    )
    exits = {} if code is None else {2: code}
    assert only(judge_snapshots(*twice(*OTHERS, gone), line_of=line_of, exits=exits)).cause is cause


def test_ranks_that_all_shut_down_are_not_worth_a_word():
    assert judged(*(away(rank, 99, *SHUTDOWN) for rank in range(4))) == ()


def test_a_rank_that_shut_down_while_others_wait_is_an_error():
    finding = only(judged(*OTHERS, away(2, 99, *SHUTDOWN)))
    assert (finding.cause, finding.culprit_ranks, finding.severity) == (Cause.MAIN_EXITED, (2,), Severity.ERROR)


@pytest.mark.parametrize(
    ("text", "site"), [("kept by threads 78, 79", "train.py:34"), ("", None)], ids=["told", "not told"]
)
def test_of_the_threads_of_a_rank_that_has_left_its_program_the_one_that_keeps_it_is_named(text, site):
    facts = ring(num_done=6, is_inside=False, moments=(moment("main_exited", text),))
    main = stack(1002, 99, *SHUTDOWN)
    main = replace(main, frames=main.frames[: len(SHUTDOWN)])
    left = rank_snapshot(2, main, facts, helper(77, 33, *QUEUE_GET), helper(78, 34))
    finding = only(judged(*OTHERS, left))
    assert (finding.cause, finding.culprit_ranks, finding.severity) == (Cause.MAIN_EXITED, (2,), Severity.ERROR)
    assert finding.site == site


def gone(rank: int, **changes: object) -> RankSnapshot:
    """A rank whose process is not there any more."""
    return rank_snapshot(rank, None, ring(num_done=6, is_inside=False, **changes), state=ProcessState.GONE)


def test_ranks_that_end_one_after_the_other_are_no_alarm():
    left = (moment("main_exited", ""),)
    saver = away(2, 30, waiting_in=WaitingIn.NANOSLEEP)
    assert (
        judge_snapshots(*twice(gone(0, moments=left), gone(1, moments=left), saver), line_of=line_of, exits={0: 0})
        == ()
    )


def test_a_rank_that_ends_while_its_peers_wait_for_it_is_an_error():
    left = (moment("main_exited", ""),)
    finding = only(judge_snapshots(*twice(*OTHERS, gone(2, moments=left)), line_of=line_of, exits={2: 0}))
    assert (finding.cause, finding.culprit_ranks, finding.severity) == (Cause.MAIN_EXITED, (2,), Severity.ERROR)
    assert finding.message == "rank 2 ended while ranks 0, 1, 3 wait: its program ended while its peers still needed it"


def lost_its_peer(rank: int, age_s: float) -> RankSnapshot:
    """A rank whose main thread has raised because a connection of its broke."""
    error = replace(moment("exception", "RuntimeError: Connection closed by peer", "train.py:30"), age_s=age_s)
    return replace(waiting(rank), ring=ring(num_done=6, is_inside=True, moments=(error,)))


def test_no_victim_is_named_while_it_is_not_known_how_the_rank_ended_that_they_lost():
    victims = (lost_its_peer(0, 0.4), lost_its_peer(1, 0.5), lost_its_peer(3, 0.4))
    before, after = snapshot(*victims, waiting(2)), snapshot(*victims, gone(2))
    assert errors(judge_snapshots(before, after, line_of=line_of)) == []
    told = only(judge_snapshots(before, after, line_of=line_of, exits={2: 3}))
    assert (told.cause, told.culprit_ranks) == (Cause.MAIN_EXITED, (2,))
    still_untold = only(judge_snapshots(after, after, line_of=line_of))
    assert (still_untold.cause, still_untold.culprit_ranks) == (Cause.KILLED, (2,))


def test_of_ranks_that_lost_each_other_the_earliest_is_inferred_once_none_of_the_ends_is_new():
    ranks = (lost_its_peer(0, 4.0), lost_its_peer(1, 5.0))
    assert errors(judge_snapshots(snapshot(ranks[0], waiting(1)), snapshot(*ranks), line_of=line_of)) == []
    finding = only(judge_snapshots(*twice(*ranks), line_of=line_of))
    assert (finding.certainty, finding.culprit_ranks) == (Certainty.INFERRED, (1,))


FULLY_SHARD = (
    ("DeviceMesh.__init__", "/env/lib/python3.11/site-packages/torch/distributed/device_mesh.py", 291),
    ("fully_shard", "/env/lib/python3.11/site-packages/torch/distributed/fsdp/_fully_shard/_fully_shard.py", 230),
)


def test_a_rank_that_shards_its_model_is_busy_and_waits_for_nobody():
    ranks = (*OTHERS, away(2, 40, *FULLY_SHARD, state=ProcessState.RUNNING))
    (finding,) = judge_snapshots(None, snapshot(*ranks), line_of=line_of)
    assert (finding.code, finding.severity, finding.cause) == ("H101", Severity.NOTICE, Cause.CPU_LOOP)
    assert "it runs code of its own in step() at train.py:40" in finding.message


@pytest.mark.parametrize(
    ("age_s", "state", "cause"),
    [
        (8.0, ProcessState.SLEEPING, Cause.LOCK),
        (0.2, ProcessState.SLEEPING, Cause.SLEEP),
        (8.0, ProcessState.RUNNING, Cause.CPU_LOOP),
    ],
    ids=["keeps the lock", "lets others run", "computes in native code"],
)
def test_a_native_call_that_waits_and_keeps_the_interpreter_is_told_by_the_recorder_s_silence(age_s, state, cause):
    facts = ring(num_done=6, is_inside=False, heartbeat_age_s=age_s)
    held = rank_snapshot(2, stack(1002, 32), facts, state=state, waiting_in=WaitingIn.NANOSLEEP)
    finding = only(judged(*OTHERS, held))
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H101", cause, (2,))
    assert ("keeps the interpreter's lock" in finding.message) is (cause is Cause.LOCK)


def test_a_rank_in_a_call_of_torch_s_keeps_no_interpreter_though_its_recorder_is_late():
    """Torch releases the lock while it waits: on a busy machine the recorder's thread alone may be late."""
    late = [replace(rank, ring=replace(rank.ring, heartbeat_age_s=8.0)) for rank in OTHERS]
    held = rank_snapshot(2, stack(1002, 32), ring(num_done=6, is_inside=False), waiting_in=WaitingIn.NANOSLEEP)
    finding = only(judged(*late, held))
    assert (finding.cause, finding.culprit_ranks) == (Cause.SLEEP, (2,))


def test_a_rank_seen_where_it_asks_torch_for_its_number_is_in_no_call():
    busy = away(2, 40, ("_get_default_group", C10D, 1400), ("get_rank", C10D, 2400), state=ProcessState.RUNNING)
    finding = only(judge_snapshots(None, snapshot(*OTHERS, busy), line_of=line_of))
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H101", Cause.CPU_LOOP, (2,))


def test_a_rank_that_waits_inside_a_part_of_torch_is_not_called_busy():
    ranks = (*OTHERS, away(2, 40, *FULLY_SHARD, state=ProcessState.SLEEPING))
    (finding,) = judge_snapshots(None, snapshot(*ranks), line_of=line_of)
    assert (finding.code, finding.cause) == ("H109", Cause.UNKNOWN)
    assert finding.next == "read train.py:40: which call it makes below that line, and whether its peers make it too"


def test_a_rank_that_called_while_it_was_looked_at_is_not_worth_a_word():
    came = replace(away(2, 30), stacks=(), has_moved=True)
    assert judge_snapshots(None, snapshot(*OTHERS, came), line_of=line_of) == ()
    (finding,) = judge_snapshots(None, snapshot(*OTHERS, replace(came, has_moved=False)), line_of=line_of)
    assert (finding.code, finding.culprit_ranks) == ("H101", (2,))


def test_a_job_in_mid_step_is_no_alarm():
    early = snapshot(*(waiting(r, still_s=0.1) for r in range(4)))
    late = snapshot(*(replace(waiting(r), ring=ring(num_done=20, is_inside=True)) for r in range(4)), taken_s=104.0)
    assert errors(judge_snapshots(early, late, line_of=line_of)) == []


def test_what_goes_on_again_is_said_in_these_words():
    said = only(judged(*OTHERS, away(2, 30, waiting_in=WaitingIn.NANOSLEEP)))
    finding = resumed_finding(said)
    assert (finding.code, finding.severity) == ("H128", Severity.NOTICE)
    assert finding.message.startswith("the job goes on: rank 2 moved again; it was: rank 2 has not arrived yet")


@pytest.mark.parametrize(("function", "cause"), [("<module>", Cause.UNKNOWN), ("__call__", Cause.COMPILE)])
def test_a_rank_that_merely_imports_the_compiler_does_not_compile(function, cause):
    inner = ("get_data", "<frozen importlib._bootstrap_external>", 1074)
    frames = (inner, (function, "/env/lib/python3.11/site-packages/torch/_dynamo/convert_frame.py", 60))
    finding = only(judged(*OTHERS, away(2, 43, *frames)))
    assert (finding.culprit_ranks, finding.cause) == ((2,), cause)


def test_looks_of_two_hosts_join_and_travel_as_json():
    one, other = (
        snapshot(waiting(0), waiting(1)),
        snapshot(away(2, 31, waiting_in=WaitingIn.FUTEX), waiting(3), taken_s=100.5),
    )
    wire = [Snapshot.from_json(json.loads(json.dumps(each.to_json()))) for each in (one, other)]
    joined = join_snapshots(wire)
    assert sorted(joined.ranks) == [0, 1, 2, 3]
    assert joined.ranks == {**one.ranks, **other.ranks}
    finding = only(judge_snapshots(joined, replace(joined, taken_s=joined.taken_s + 4), line_of=line_of))
    assert (finding.culprit_ranks, finding.cause) == ((2,), Cause.LOCK)


def test_a_fact_that_only_one_recorder_tells_is_no_difference():
    """Rank 1's rows are torch's own, which know no root; the others' are the ring's."""
    ranks = []
    for rank in range(4):
        seen = waiting(rank)
        assert seen.ring is not None
        name = "gloo:broadcast" if rank == 1 else "live:broadcast root=0"
        size = [[2, 4]] if rank == 1 else [[8]]
        rows = [{**row, "profiling_name": name, "input_sizes": size} for row in seen.ring.flight["entries"]]
        ranks.append(replace(seen, ring=replace(seen.ring, flight={**seen.ring.flight, "entries": rows})))
    assert [f for f in judged(*ranks) if f.kind is Kind.MISMATCH] == []


def test_a_root_that_differs_in_silence_is_an_error():
    ranks = []
    for rank in range(4):
        seen = waiting(rank)
        assert seen.ring is not None
        name = f"live:broadcast root={1 if rank == 2 else 0}"
        rows = [{**row, "profiling_name": name} for row in seen.ring.flight["entries"]]
        ranks.append(replace(seen, ring=replace(seen.ring, flight={**seen.ring.flight, "entries": rows})))
    finding = judged(*ranks)[0]
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("M102", Cause.DIFFERENT_ROOT, (2,))
    assert finding.severity is Severity.ERROR


def test_an_unseen_rank_is_unknown_and_not_guilty():
    findings = judge_snapshots(
        *(replace(each, world_size=4) for each in twice(waiting(0), waiting(1), waiting(3))), line_of=line_of
    )
    assert [f.severity for f in findings] == [Severity.NOTICE]
    assert findings[0].culprit_ranks == ()
    assert "not seen: rank 2; unknown, not guilty" in findings[0].evidence


@pytest.mark.parametrize("seed", range(4))
def test_damaged_looks_end_in_a_verdict_or_a_plain_error(seed):
    rng = random.Random(seed)
    text = json.dumps(snapshot(*OTHERS, away(2, 31, *QUEUE_GET)).to_json())
    for _ in range(120):
        place = rng.randrange(len(text))
        damaged = (
            text[:place] + rng.choice(['"', "0", "null", "-1", "[]", "x", ""]) + text[place + rng.randrange(1, 9) :]
        )
        try:
            broken = Snapshot.from_json(json.loads(damaged))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        try:
            judge_snapshots(None, broken, line_of=line_of)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {damaged[max(0, place - 60) : place + 60]}") from error


def test_the_stack_of_a_collective_is_what_the_looks_are_made_of():
    assert errors(judged(*(waiting(r) for r in range(4)))) == []
    assert ALL_REDUCE[0][0] == "all_reduce"


def test_a_call_that_all_issued_and_that_ends_on_none_is_a_notice_until_its_limit():
    (notice,) = judge_snapshots(*twice(*(waiting(rank) for rank in range(4))))
    assert (notice.code, notice.kind, notice.cause) == ("H103", Kind.DEVICE, Cause.DEVICE_STALL)
    assert (notice.severity, notice.culprit_ranks, notice.waiting_ranks) == (Severity.NOTICE, (), (0, 1, 2, 3))
    (late,) = judge_snapshots(*twice(*(waiting(rank, still_s=80.0) for rank in range(4))))
    assert (late.code, late.severity) == ("H103", Severity.WARNING)


def test_a_call_that_all_issued_and_that_ended_in_between_is_no_stall():
    early = snapshot(*(waiting(rank) for rank in range(4)))
    late = snapshot(*(waiting(rank, num_done=7) for rank in range(4)), taken_s=104.0)
    assert judge_snapshots(early, late) == ()

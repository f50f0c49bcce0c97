"""What a profile says, whole; what it says of samples that are missing, cut or not there."""

import json

import pytest

from emberward.findings import Cause
from emberward.lens import (
    Instruction,
    Sources,
    is_result_kept_from_all,
    page_text,
    profile_of,
    ranks_of_job,
    samples_of,
    tell,
)
from emberward.lens._causes import Told
from emberward.lens._stalls import RankStall, _made_at

PROGRAM = """import time
for step in range(100):
    loss = model(x)
    value = loss.item()
    optimizer.step()
"""
FILE = "train.py"
LOOP = [[FILE, "<module>", 1]]
ITEM = [FILE, "<module>", 1, "user", 4, 4, 12, 23, "CALL"]
WORK = [FILE, "<module>", 1, "user", 3, 3, 11, 19, "CALL"]
STEP_NS = 100_000_000


def lines(*, rank=0, size=None, item_ns=20_000_000, num_steps=10, is_last=True, stack=ITEM, busy=0.0):
    cells = {step: [item_ns, int(busy * item_ns)] for step in range(5, 5 + num_steps)}
    rest = {step: [STEP_NS - item_ns, STEP_NS - item_ns] for step in range(5, 5 + num_steps)}
    return [
        {
            "form": 1,
            "pid": 100 + rank,
            "warmup": 5,
            "is_last": is_last,
            "period_ns": 2_000_000,
            "bounds_ns": [k * STEP_NS for k in range(num_steps + 1)],
            "first_step": 5,
            "queue_ns": 0,
            "has_cpu_time": True,
            "loop": LOOP,
            "outputs": [],
            "rank": rank,
            "world_size": size,
            "device": "cpu",
        },
        {"place": stack},
        {"place": WORK},
        {"stack": [0], "flag": "", "steps": cells},
        {"stack": [1], "flag": "", "steps": rest},
        {"end": True},
    ]


def sources():
    return Sources(lambda file: PROGRAM if file == FILE else "")


def profile(*ranks, **options):
    return profile_of([samples_of(each) for each in ranks], sources(), asked_warmup=5, **options)


PAGE = """step 100.00 ms in the median, 2 ranks, steps 5 to 14
critical path, replayed at +0.0% of the step:
  100.00 ms rank 0 between calls

P101  item: every rank reads a value from the device: 20.00 ms a step, 20.0%
  line    train.py:4
  gain    20.00 ms a step without it
  seen    seen in 10 of 10 steps
  seen    rank 0: 20.00 ms a step
  seen    rank 1: 20.00 ms a step
  change  read it every N steps, or a step later when it is there anyway"""


def test_a_stall_is_a_warning_in_these_words():
    both = profile(lines(rank=0, size=2), lines(rank=1, size=2))
    assert page_text(both) == PAGE
    (found,) = both.findings
    assert found.code == "P101"
    assert (found.culprit_ranks, found.site) == ((0, 1), "train.py:4")
    assert found.to_json()["cost_ms_per_step"] == 20.0


@pytest.mark.parametrize(("item_ns", "gain_ms"), [(20_000_000, 20.0), (70_000_000, 30.0)])
def test_without_a_wait_for_the_device_host_and_device_overlap(item_ns, gain_ms):
    assert [each.gain_ms_per_step for each in profile(lines(item_ns=item_ns)).findings] == [gain_ms]


@pytest.mark.parametrize(("queue_ms", "gain_ms"), [(0, 30.0), (10, 20.0)])
def test_time_for_want_of_a_processor_is_no_gain(queue_ms, gain_ms):
    head, *rest = lines(item_ns=70_000_000)
    (found,) = profile([{**head, "queue_ns": 10 * queue_ms * 1_000_000}, *rest]).findings
    assert found.gain_ms_per_step == gain_ms


def test_the_device_has_work_while_the_host_issues_some():
    head, item, work, *rest = lines(item_ns=70_000_000)
    module = ["/x/torch/nn/modules/module.py", "_call_impl", 1, "platform", 9, 9, 0, 1, "CALL"]
    issuing = {"stack": [2, 1], "flag": "", "steps": {step: [25_000_000, 25_000_000] for step in range(5, 15)}}
    (found,) = profile([head, item, work, {"place": module}, issuing, *rest]).findings
    assert (found.cost_ms_per_step, found.gain_ms_per_step) == (70.0, 5.0)


def test_work_that_is_no_wait_is_no_stall():
    assert profile(lines(stack=WORK)).findings == ()
    assert profile(lines(item_ns=500_000)).findings == ()
    in_jumps = [FILE, "<module>", 1, "user", 3, 3, 11, 19, "POP_JUMP_FORWARD_IF_FALSE"]
    assert profile(lines(stack=in_jumps, busy=0.9)).findings == ()
    assert [each.cause for each in profile(lines(stack=in_jumps, busy=0.1)).findings] == [Cause.BOOL]


def test_what_could_not_be_measured_is_said_in_these_words():
    early = profile(lines(num_steps=0))
    assert [(f.code, f.message) for f in early.findings] == [
        ("P110", "no step was measured: the job ended before step 6, the first after the warm-up")
    ]
    none = profile()
    assert [(f.code, f.message) for f in none.findings] == [
        (
            "P110",
            "no step was measured: no process ended a step of torch.optim, or a backward without an optimizer, "
            "or turned ten times in a loop",
        )
    ]
    cut = profile(lines(rank=1, size=3, is_last=False, stack=WORK))
    assert [(f.code, f.message) for f in cut.findings] == [
        ("P111", "a part of the profile is missing: ranks 0, 2 left no samples"),
        ("P111", "a part of the profile is missing: rank 1 ended before the last sample was written"),
    ]


def test_whole_samples_are_no_complaint():
    assert profile(lines(stack=WORK)).findings == ()


def test_a_file_that_is_cut_or_of_another_version_is_refused():
    whole = lines()
    for bad in (whole[:-1], [{**whole[0], "form": 99}, *whole[1:]], []):
        with pytest.raises(ValueError, match=r"cut off|another version"):
            samples_of(bad)
    assert samples_of(json.loads(json.dumps(whole))).num_steps == 10


def test_what_other_rooms_do_not_wait_for_is_not_told():
    rank = samples_of(
        lines(stack=["/lib/python3.11/site-packages/torch/distributed/x.py", "f", 1, "platform", 1, 1, 0, 1, "CALL"])
    )
    assert [tell(each, rank, sources()) for each in rank.stacks] == [None, None]


WAITS = """def fetch(key):
    time.sleep(1)
    return key
for step in range(100):
    x, y = ahead.result()
    x = fetch(step)
    done.result()
    norm = w.norm().item()
    kept = [p.clone() for p in parameters]
    loss = cross_entropy(net(x), y)
    loss.backward()
    unread = torch.stack([w.norm() for w in weights])
    show(norm, kept)
def shards():
    for name in NAMES:
        time.sleep(1)
        yield name
net = build()
def body(x):
    time.sleep(1)
    return net(x)
for batch in shards():
    out = cross_entropy(body(torch.rot90(batch)))
    out.backward()
"""
POOL = ["/usr/lib/python3.11/concurrent/futures/thread.py", "run", 53, "platform", 58, 58, 0, 9, "CALL"]
FUTURE = ["/usr/lib/python3.11/concurrent/futures/_base.py", "result", 428, "platform", 451, 451, 0, 9, "CALL"]
SAVE = ["/site-packages/torch/serialization.py", "save", 900, "package", 967, 967, 0, 9, "CALL"]


def at(line, last, operation="CALL", *, column=4, function="<module>"):
    return [FILE, function, 1, "user", line, line, column, last, operation]


def waited(places, stack, beside=(), *, busy=0.0):
    """What a profile says of steps with 20 ms in a stack; `beside`: for each ms after it began, the other's stack."""
    head, *_ = lines()
    cells = {k: [20_000_000, int(busy * 20_000_000), k * STEP_NS, 0] for k in range(5, 15)}
    seen = [{"stack": stack, "flag": "", "steps": cells, "beside": [list(each) for each in beside[:1]]}]
    if len(beside) > 1:
        later = {k: [c // 4 if i < 2 else c + 1_000_000 for i, c in enumerate(cell)] for k, cell in cells.items()}
        seen.append({"stack": stack, "flag": "", "steps": later, "beside": [list(beside[1])]})
    document = [head, *({"place": place} for place in places), *seen, {"end": True}]
    texts = Sources(lambda file: WAITS if file == FILE else "")
    found = profile_of([samples_of(document)], texts, asked_warmup=5).findings
    return [(each.cause, each.site) for each in found]


def test_what_a_wait_is_for_is_told_by_what_becomes_of_its_value_and_by_the_thread_beside():
    batch, sleep, call = at(5, 24, column=11), at(2, 17, function="fetch"), at(6, 19, column=8)
    assert waited([FUTURE, batch], [0, 1]) == [(Cause.DATA_WAIT, "train.py:5")]
    assert waited([sleep, call], [0, 1]) == [(Cause.DATA_WAIT, "train.py:6")]
    shard, turn = at(16, 21, column=8, function="shards"), [FILE, "<module>", 1, "user", 22, 24, 0, 18, "FOR_ITER"]
    assert waited([shard, turn], [0, 1]) == [(Cause.DATA_WAIT, "train.py:22")]
    own, forward = at(20, 17, function="body"), at(23, 47, column=24)
    assert waited([own, forward], [0, 1]) == [(Cause.SLEEP, "train.py:20")]
    places = [FUTURE, batch, at(2, 9, function="upload"), at(2, 9, function="fetch"), POOL]
    assert waited(places, [0, 1], [[2, 4], [3, 4]]) == [(Cause.SAME_LANE, "train.py:5")]
    assert waited(places, [0, 1], [[3, 4], [3, 4]]) == [(Cause.DATA_WAIT, "train.py:5")]
    assert waited([FUTURE, at(7, 17), SAVE, POOL], [0, 1], [[2, 3]]) == [(Cause.SAVE_IN_STEP, "train.py:7")]
    assert waited([FUTURE, at(7, 17)], [0, 1]) == [(Cause.LOCK, "train.py:7")]
    threading = "/usr/lib/python3.11/threading.py"
    begun = [[threading, name, 1, "platform", 9, 9, 0, 9, "CALL"] for name in ("wait", "start", "join")]
    assert waited([*begun, at(7, 17)], [0, 2, 3]) == [(Cause.LOCK, "train.py:7")]
    assert waited([*begun, at(7, 17)], [0, 1, 3]) == []  # A thread that begins holds nobody up.
    assert waited([FUTURE, at(7, 17)], [0, 1], busy=0.9) == []


def test_data_that_a_loader_makes_in_this_process_is_told_at_the_line_that_takes_most_of_it():
    loader = ["/site-packages/torch/utils/data/dataloader.py", "__next__", 9, "platform", 9, 9, 0, 9, "CALL"]
    collate = ["/site-packages/torch/utils/data/_utils/collate.py", "collate", 9, "platform", 9, 9, 0, 9, "CALL"]
    reads, batch = at(2, 17, function="fetch"), at(5, 24, column=11)
    assert waited([reads, loader, batch], [0, 1, 2], busy=1.0) == [(Cause.DATA_WAIT, "train.py:2")]
    assert waited([collate, loader, batch], [0, 1, 2], busy=1.0) == [(Cause.DATA_WAIT, "train.py:5")]
    assert waited([loader, batch], [0, 1]) == [(Cause.DATA_WAIT, "train.py:5")]


def test_where_no_line_of_the_data_takes_most_the_one_that_calls_them_is_told():
    loader = ["/site-packages/torch/utils/data/dataloader.py", "__next__", 9, "platform", 9, 9, 0, 9, "CALL"]
    lines = [at(line, 9, function="fetch") for line in (2, 3, 4)]
    assert told_of_parts([[line, at(16, 21), loader, at(5, 24, column=11)] for line in lines]) == "train.py:16"
    assert told_of_parts([[line, at(15 + i, 21), loader, at(5, 24, column=11)] for i, line in enumerate(lines)]) is None


def told_of_parts(stacks):
    """The line at which data are told that were made in these stacks, a third of the time in each."""
    cells = {
        (inner.site, outer.site): 1.0
        for inner, outer, *_ in [[Instruction(*each) for each in stack] for stack in stacks]
    }
    told = Told(cause=Cause.DATA_WAIT, site="train.py:5")
    return _made_at(RankStall(told=told, rank=0, cost_s=1.0, num_steps=9, busy_share=1.0, seen={}, inside=cells))


def test_work_whose_value_nobody_reads_and_copies_of_state_are_told_and_a_model_s_own_work_is_not():
    assert waited([at(12, 53, column=13)], [0], busy=1.0) == [(Cause.UNUSED_RESULT, "train.py:12")]
    assert waited([at(9, 21, column=12)], [0], busy=1.0) == [(Cause.HOST_COPY, "train.py:9")]
    assert waited([at(10, 35, column=11)], [0], busy=1.0) == []


COLLECTED = """def collect(x):
    out = empty(x)
    dist.all_gather_into_tensor(out, x)
    return out.float()
def step(x, report):
    everything = collect(x)
    shown = collect(x)
    loss = net(x)
    if report is not None:
        report.append(everything)
    report.keep(shown)
    collect(x)
    return loss
"""


def test_a_result_that_the_text_reads_in_a_branch_alone_is_kept_from_all():
    sources = Sources(lambda file: COLLECTED if file == FILE else "")
    gather, loop = Instruction(*at(3, 39, function="collect")), Instruction(*at(99, 5))

    def is_kept(line, column, last):
        caller = Instruction(*at(line, last, column=column, function="step"))
        return is_result_kept_from_all([gather, caller, loop], sources)

    assert is_kept(6, 17, 27) and is_kept(12, 4, 14)
    assert not is_kept(7, 12, 22)


def test_objects_that_only_one_rank_uses_are_used_and_those_of_a_report_that_is_off_are_not():
    text = """def step(x):
    everyone = [None] * size
    dist.all_gather_object(everyone, x)
    if {test}:
        show(everyone)
"""
    gather = Instruction(*at(3, 39, function="step"))
    every, some = ("rank == 0", "self.is_main", "rank == 0 and self.is_main"), ("report", "step % 50 == 0")
    tests = [*((test, False) for test in every), *((test, True) for test in (*some, "rank == 0 and step % 50 == 0"))]
    for test, is_kept in tests:
        sources = Sources(lambda file, test=test: text.format(test=test) if file == FILE else "")
        assert is_result_kept_from_all([gather], sources) is is_kept


def test_a_rank_that_only_turns_in_a_loop_takes_part_in_the_steps_of_the_others():
    trains, serves = lines(size=2), lines(rank=1, size=2, num_steps=12)
    moments = {step: [20_000_000, 0, (step - 5) * STEP_NS + STEP_NS // 3] for step in range(5, 17)}
    serves[0] |= {"by_turns": True, "bounds_ns": [each - STEP_NS // 2 for each in range(0, 13 * STEP_NS, STEP_NS)]}
    serves[3] |= {"steps": moments}
    helper = lines(rank=1, num_steps=12)
    helper[0] |= {"by_turns": True}
    first, second = ranks_of_job([samples_of(trains), samples_of(serves)])
    assert second.bounds_s == first.bounds_s and second.first_step == first.first_step
    assert second.stacks[0].steps == dict.fromkeys(range(5, 15), (0.02, 0.0))
    assert [each.rank for each in ranks_of_job([samples_of(trains), samples_of(helper)])] == [0]
    assert [each.rank for each in ranks_of_job([samples_of(helper)])] == [1]


def test_work_of_less_than_the_least_gain_counts_where_a_step_mostly_lacks_a_processor():
    def causes(busy, queue_ns):
        told = lines(item_ns=2_500_000, busy=busy)
        told[0] |= {"queue_ns": queue_ns}
        return [each.cause for each in profile(told).findings if each.code == "P101"]

    most_of_it = 6 * STEP_NS
    assert causes(1.0, most_of_it) == [Cause.ITEM]
    assert causes(0.2, most_of_it) == causes(1.0, 0) == []


def test_a_helper_is_found_in_the_file_that_the_program_imports():
    texts = {
        "/x/train.py": "from tools.stats import size as extent\nimport other\nvalue = extent(x)\nother.twice(x)\n",
        "/x/tools/stats.py": "def size(x):\n    return x.norm()\n",
        "/x/other.py": "class A:\n    def twice(self): ...\nclass B:\n    def twice(self): ...\n",
    }
    source = Sources(lambda file: texts.get(file, "")).of("/x/train.py")
    function, at_file = source.defined("extent")
    assert (function.name, at_file.file) == ("size", "/x/tools/stats.py")
    assert source.defined("twice") is None and source.defined("nowhere") is None


def test_a_cast_of_a_tensor_is_no_read_of_it():
    for call, cause in (("float(mask)", Cause.ITEM), ("bool(mask)", Cause.BOOL), ("mask.float()", None)):
        text = PROGRAM.replace("loss.item()", call) + "    use(value)\n"
        place = [*ITEM[:-2], 12 + len(call), "CALL"]
        told = samples_of(lines(stack=place))
        found = tell(told.stacks[0], told, Sources(lambda file, text=text: text if file == FILE else ""))
        assert (None if found is None else found.cause) is cause

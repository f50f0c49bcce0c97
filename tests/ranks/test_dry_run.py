"""The dry run of a rank is what that rank does: every event of it, on every rank, in every phase."""

import pytest
import torch

from emberward.cli._prove import representatives
from emberward.events import Barrier, Collective, GroupCreate, Observer, Recv, Send, Stage, Trace, Wait
from emberward.match import check
from emberward.recipe import mesh_of
from emberward.sources import Tape, Transport, first_difference
from emberward.sources.recorder import Recorder
from ranks.dry_cases import both, whole_recipe

LAYOUTS = {
    "dp2 zero0 acc2 saves in the foreground": {"dp": 2, "zero": 0, "accumulation": 2, "background": False},
    "dp2 zero1 acc2": {"dp": 2, "zero": 1, "accumulation": 2},
    "hsdp 2x2 zero3 acc2": {"dp": 4, "dp_replicate": 2, "zero": 3, "accumulation": 2},
    "tp2 without sequence parallel": {"tp": 2, "sequence_parallel": False, "accumulation": 2},
    "tp2 with copies compared and printed": {
        "tp": 2, "sequence_parallel": False, "accumulation": 2,
        "debug": ("equal blocks.*.mlp axis=tp", "equal embed_norm.weight axis=tp", "print blocks.0 mb=0"),
    },
    "dp2 zero2 acc2 recompute": {"dp": 2, "zero": 2, "accumulation": 2, "recompute": True},
    "pp2 gpipe bf16": {"pp": 2, "accumulation": 4, "schedule": "gpipe", "compute": "bf16"},
    "dp2 pp2 interleaved zero3": {
        "dp": 2, "pp": 2, "zero": 3, "accumulation": 4, "schedule": "interleaved", "stages_per_rank": 2,
    },
    "dp2 pp2 zb_v zero3 recompute": {
        "dp": 2, "pp": 2, "zero": 3, "accumulation": 4, "schedule": "zb_v", "stages_per_rank": 2, "recompute": True,
    },
    "dp2 tp2 pp2 1f1b saves in the foreground": {"dp": 2, "tp": 2, "pp": 2, "accumulation": 4, "background": False},
    "roberta dp2 tp2 pp2 dropout zero2": {
        "family": "roberta", "rate": 0.1, "dp": 2, "tp": 2, "pp": 2, "accumulation": 4, "zero": 2,
    },
}  # fmt: skip


def num_ranks(layout):
    return layout.get("dp", 1) * layout.get("tp", 1) * layout.get("pp", 1)


def calls_of(program):
    """What is called in each segment that has calls: rank 0 alone says that it is done, in an empty one."""
    return [
        (each.kind, each.count, [program.calls[number] for number in each.calls])
        for each in program.segments
        if each.calls
    ]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_dry_run_equals_the_live_run(pool, tmp_path, layout):
    size, recipe = num_ranks(layout), whole_recipe(**layout)
    stand_ins = representatives(mesh_of(recipe.layout), recipe)
    answers = pool.run(both, size, folder=str(tmp_path / "run"), **layout)
    for rank, answer in enumerate(answers):
        assert first_difference(answer["dry"], answer["live"]) is None
        assert answer["dry program"] == answer["live program"]
        first = answers[stand_ins[rank]]["dry program"]
        assert calls_of(answer["live program"]) == calls_of(first), "one rank of a role stands for the others"
    events = [event for answer in answers for event in answer["dry"]]
    assert {event.phase.stage for event in events} >= {
        Stage.BACKWARD_WEIGHT if layout.get("schedule") == "zb_v" else Stage.BACKWARD,
        Stage.OPTIMIZER,
        Stage.EVAL,
        # At its end a run writes a sample, which a model of hidden tokens does not.
        Stage.EVAL if recipe.model.family == "roberta" else Stage.EXIT,
    }
    is_beside = layout.get("background", True)
    assert any(event.phase.stage is Stage.SAVE for event in events) is not is_beside, "saves beside make no calls"
    assert {event.phase.name for event in events if event.phase.stage is Stage.EVAL} == {"held out (1/2)", "news (2/2)"}
    assert {type(event.body) for event in events} >= {Collective, GroupCreate}
    assert not any(isinstance(event.body, Barrier) for event in events)
    if layout.get("pp", 1) > 1:
        assert {type(event.body) for event in events} >= {Send, Recv, Wait}
    verdict = check(
        Trace(world_size=size, events={r: a["dry"] for r, a in enumerate(answers)}, observer=Observer.DRY_RUN)
    )
    assert verdict.is_safe, verdict.findings


@pytest.mark.parametrize("plant", ["late wait", "extra call"])
def test_a_real_run_that_does_otherwise_is_told(pool, tmp_path, plant):
    """The planted calls run on groups of one rank, so that the real run itself ends well."""
    layout = {"pp": 2, "accumulation": 2}
    right, wrong = pool.run(both, 2, folder=str(tmp_path / "run"), plant=plant, **layout)
    assert first_difference(right["dry"], right["live"]) is None
    difference = first_difference(wrong["dry"], wrong["live"])
    assert difference is not None
    assert "dry_cases.py" in str(difference.found.site)
    assert f"rank 1, event {difference.index}: expected " in str(difference)


def record_and_let_go(rank, world_size):
    """Whether every method of a process group is, after a recording, the very object it was before."""
    before = dict(vars(torch.distributed.ProcessGroup))
    with Recorder(Tape(rank, find_site=lambda: None, transport=Transport.GLOO)).recording():
        during = dict(vars(torch.distributed.ProcessGroup))
    after = dict(vars(torch.distributed.ProcessGroup))
    total = torch.ones(1)
    torch.distributed.all_reduce(total)
    return during != before, after == before, float(total)


def test_a_recording_leaves_torch_as_it_was(pool):
    assert pool.run(record_and_let_go, 2) == [(True, True, 2.0)] * 2

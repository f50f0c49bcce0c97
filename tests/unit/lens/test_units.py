"""Units of FSDP's that are parts of a block, units that were kept as asked, and who asks for a forward again."""

import json
from dataclasses import replace

import pytest
from unit.lens.test_logs_and_lists import RANK
from unit.lens.test_work import NONE, STEP_MS, rank_of, seen

from emberward.findings import Cause
from emberward.lens import Instruction, Sampled, Sources, checkpointed_at, wastes_of, work_of
from emberward.lens._samples import ENGINE
from emberward.lens._sharding import called_again_at
from emberward.lens._units import blocks_of, start_share

PARTS = [f"blocks.{number}.{name}" for number in (0, 1) for name in ("att.qkv", "up", "down")]
BLOCKS = ["blocks.0", "blocks.1"]
WEIGHTS = [f"{name}.{end}" for name in PARTS for end in ("weight", "bias")]
UNIT = json.dumps([[[100_000], [50_000]], ["float", "float"]])


def test_layers_of_one_block_are_its_parts_and_blocks_experts_and_single_layers_are_none():
    assert blocks_of(PARTS, WEIGHTS) == {name: name[:8] for name in PARTS}
    assert blocks_of(BLOCKS, WEIGHTS) == {}
    experts = [f"blocks.0.experts.{number}" for number in range(4)]
    assert blocks_of(experts, [f"{name}.{layer}.weight" for name in experts for layer in ("up", "down")]) == {}
    assert blocks_of(["blocks.0.head", "embed", "head"], ["blocks.0.head.weight", "embed.weight", "head.weight"]) == {}
    assert blocks_of(["net.0", "net.2"], ["net.0.weight", "net.2.weight"]) == {}


def test_what_a_unit_takes_for_its_size_is_no_start():
    assert start_share({"a": 1.0, "b": 1.0}, {"a": 100, "b": 400}) == pytest.approx(1.0)
    assert start_share({"a": 1.0, "b": 4.0}, {"a": 100, "b": 400}) == pytest.approx(0.0)
    assert start_share({"a": 1.0, "b": 1.0}, {"a": 100, "b": 100}) == pytest.approx(0.5)


def sharded_by(names, number):
    """A rank that gathers each of the units for 1 ms, and does nothing else meanwhile."""
    rows = [("emberward::at train.py:5", NONE, 0.0, STEP_MS, -1, False)]
    for index, name in enumerate(names):
        rows += [
            (f"FSDP::all_gather ({name})", NONE, float(index), 0.9, -1, False),
            ("c10d::_allgather_base_", UNIT, float(index), 0.1, -1, False),
            ("gloo:all_gather", UNIT, index + 0.1, 0.8, -1, True),
        ]
    rank = rank_of(number, rows, parameters=[(each, 100, 50, None) for each in WEIGHTS])
    return replace(rank, units=(("build.py:3", 400_000),) * len(names) + (("build.py:7", 1 << 20),))


def test_parts_of_a_block_are_told_at_the_line_that_makes_them_and_blocks_are_not():
    ranks = [sharded_by(PARTS, number) for number in (0, 1)]
    (waste,) = wastes_of(work_of(ranks), ranks)
    assert (waste.cause, waste.site) == (Cause.SMALL_PARAMETERS, "build.py:3")
    assert 1000 * waste.cost_s == pytest.approx(6 * 0.9 * 0.5 * (1 - 2 / 6), rel=0.05)
    whole = [sharded_by(BLOCKS, number) for number in (0, 1)]
    assert wastes_of(work_of(whole), whole) == ()


def used_twice(number, *, is_kept):
    """A rank that uses a unit twice forward and twice backward, and gathers it before each use or after the first."""
    rows = [("emberward::at train.py:5", NONE, 0.0, STEP_MS, -1, False)]
    gathers = (0.0, 6.0) if is_kept else (0.0, 2.0, 4.0, 6.0)
    for at in gathers:
        rows += [
            ("FSDP::all_gather (cell)", NONE, at, 0.9, -1, False),
            ("c10d::_allgather_base_", UNIT, at, 0.1, -1, False),
            ("gloo:all_gather", UNIT, at + 0.1, 0.8, -1, True),
        ]
    rows += [("FSDP::post_forward (cell)", NONE, at, 0.1, -1, False) for at in (1.5, 3.5)]
    rows += [("FSDP::pre_backward (cell)", NONE, at, 1.2, -1, False) for at in (4.0, 6.0)]
    return rank_of(number, rows)


def test_a_unit_that_was_kept_for_the_backward_is_not_gathered_twice_by_what_the_backward_frees():
    ranks = [used_twice(number, is_kept=False) for number in (0, 1)]
    assert [each.cause for each in wastes_of(work_of(ranks), ranks)] == [Cause.GATHERED_TWICE]
    ranks = [used_twice(number, is_kept=True) for number in (0, 1)]
    assert wastes_of(work_of(ranks), ranks) == ()


def test_a_method_that_calls_its_base_asks_for_no_forward_again():
    text = "class Timed(Trainer):\n    def training_step(self, *args):\n        return super().training_step(*args)\n"
    text += "trainer.train()\n"
    stack = (
        ("model.py", "forward", "user", 7),
        ("/x/torch/utils/checkpoint.py", "checkpoint", "torch", 5),
        ("train.py", "training_step", "user", 3),
        ("train.py", "<module>", "user", 4),
    )
    rank = seen(*stack)
    *inner, method, loop = rank.stacks[0].stack
    method = replace(method, column=15, last_column=43)
    rank = replace(rank, stacks=(replace(rank.stacks[0], stack=(*inner, method, loop)),))
    assert checkpointed_at([rank], Sources(lambda file: text)) == "train.py:4"
    assert checkpointed_at([rank], Sources(lambda file: text.replace("super()", "self"))) == "train.py:3"


ASKED = """args = TrainingArguments(out, gradient_checkpointing=True)
trainer = Trainer(model, args)
trainer.train()
"""


@pytest.mark.parametrize(
    ("block", "text", "site"),
    [
        ("/x/site-packages/transformers/modeling_layers.py", ASKED, "train.py:1"),
        ("/x/site-packages/transformers/modeling_layers.py", ASKED.replace("True", "False"), "train.py:3"),
        ("/x/torch/nn/modules/module.py", ASKED, "train.py:3"),
    ],
    ids=["a library's blocks", "no line switches it on", "the program's own blocks"],
)
def test_checkpoints_of_a_library_are_told_where_it_is_asked_for_them(block, text, site):
    checkpoint = ("/x/torch/utils/checkpoint.py", "checkpoint", "torch", 5)
    rank = seen(("layer.py", "forward", "torch", 7), checkpoint, (block, "__call__", "torch", 9), TRAINS)
    assert checkpointed_at([rank], Sources(lambda file: text if file == "train.py" else "")) == site


TRAINS = ("train.py", "<module>", "user", 3)


MODULE = Instruction("/torch/nn/modules/module.py", "_call_impl", 1, "platform", 9, 9, 0, 1, "CALL")


def called(*lines, engine=False):
    """A rank whose loop runs line 5 of the tower for 10 ms of each step at each of the lines, in this order."""

    def at(file, line):
        return Instruction(file, "f", 1, "user", line, line, 0, 1, "CALL")

    backward = (Instruction("/torch/autograd/graph.py", ENGINE, 1, "platform", 9, 9, 0, 1, "CALL"),) if engine else ()
    stacks = tuple(
        Sampled(
            stack=(at("layer.py", 3), at("tower.py", 5), *backward, MODULE, at("train.py", line), at("train.py", 9)),
            flag="",
            steps={step: (0.01, 0.01) for step in range(4)},
            at_s={step: step + 0.02 * turn for step in range(4)},
        )
        for turn, line in enumerate(lines)
    )
    return replace(RANK, bounds_s=(0.0, 1.0, 2.0, 3.0, 4.0), stacks=stacks)


def test_what_two_lines_of_a_caller_run_is_told_at_the_later_one():
    assert called_again_at([called(7, 8)], "tower.py:5") == "train.py:8"
    assert called_again_at([called(8, 7)], "tower.py:5") == "train.py:7"
    assert called_again_at([called(7, 8)], "train.py:7") is None
    assert called_again_at([called(7), called(7)], "tower.py:5") is None  # One line alone, in turns of a loop.
    assert called_again_at([called(7), called(7)], "tower.py:5", is_looped=True) == "train.py:7"
    assert called_again_at([called(7)], "train.py:7", is_looped=True) is None  # No module is called between.
    assert called_again_at([called(7, 8, engine=True)], "tower.py:5") is None  # Gathered for the backward.
    assert called_again_at([], None) is None

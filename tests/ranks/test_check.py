"""`emberward check` of recipes and traces, as a person calls it."""

from pathlib import Path

import pytest
from unit.cli.door import emberward

from emberward.events import Collective, CollectiveOp, Group, Lane, LaneKind, Observer, TraceBuilder, write_trace

SMALL = (
    "bloom_tiny", "model.num_layers=2", "model.hidden=32", "model.seq_len=16", "batch.global_batch=8",
    "batch.micro_batch=2", "--ranks", "4",
)  # fmt: skip


def check(*words):
    said = emberward("check", *words, "--json", cwd=Path.cwd())
    assert said.code in (0, 1), said.err
    return said.code, said.document


def test_the_tiny_preset_is_proved_from_one_rank_of_each_role():
    code, answer = check("bloom_tiny")
    assert (code, answer["proved"], answer["findings"]) == (0, True, [])
    assert (answer["num_ranks"], answer["num_roles"]) == (8, 2)
    assert answer["device_order"]["exists"] is True
    assert answer["device_order"]["num_groups"] == 8
    # The page's bytes are those of the dry run, or there would be a finding M112.
    assert [role["traffic"][0]["group"] for role in answer["preflight"]["roles"]] == ["tp", "tp"]
    assert any(line.startswith("the ranks of a role run one program") for line in answer["assumptions"])
    assert answer["not_examined"]


def test_fewer_ranks_adapt_the_presets_layout_and_all_of_them_can_be_run_dry():
    code, answer = check(*SMALL, "--all-ranks")
    assert (code, answer["proved"], answer["num_ranks"], answer["num_roles"]) == (0, True, 4, 4)


def test_a_layout_whose_program_raises_is_told():
    """A vocabulary that is not what the recipe says cannot happen; an impossible shape is found before: exit 2."""
    said = emberward("check", "bloom_tiny", "layout.tp=3", "--json", cwd=Path.cwd())
    assert said.code == 2
    assert said.document["findings"][0]["code"] == "C104"


@pytest.mark.parametrize("numel", [4, 5])
def test_traces_of_several_files_are_judged_as_one(tmp_path, numel):
    world, host = Group(ranks=(0, 1), label="world"), Lane(kind=LaneKind.HOST)
    for rank, size in enumerate((4, numel)):
        builder = TraceBuilder(2, Observer.DRY_RUN)
        body = Collective(op=CollectiveOp.ALL_REDUCE, group=world, dtype="float32", numel=size)
        builder.add(rank, host, body)
        write_trace(builder.build(), tmp_path / f"rank{rank}.jsonl")
    code, answer = check(str(tmp_path))
    assert code == (numel != 4)
    assert answer["proved"] is (numel == 4)
    assert [finding["code"] for finding in answer["findings"]] == ([] if numel == 4 else ["M102"])

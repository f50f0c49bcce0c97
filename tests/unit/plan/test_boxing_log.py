"""The log of layout changes: it covers what a rank's groups carry, to the byte, and says where a Split would serve."""

import csv
import io

import pytest

from emberward.layout import Axis
from emberward.match import explain_finding
from emberward.plan import CSV_HEADER, TrafficKind, boxing_csv, boxing_decisions, rank_traffic
from emberward.recipe import load_recipe, resolve
from emberward.report import boxing_finding, boxing_json, boxing_of, boxing_text, step_shape_of

WORDS = {
    "2x2x2": (8, ()),
    "without sequence parallel": (8, ("layout.sequence_parallel=false",)),
    "zero 3, recomputation": (8, ("layout.zero=3", "model.recompute=true")),
    "hsdp": (16, ("layout.dp=4", "layout.dp_replicate=2", "batch.global_batch=64")),
    "zero 0": (4, ("layout.dp=4", "layout.tp=1", "layout.pp=1", "layout.zero=0")),
    "interleaved": (4, ("layout.dp=1", "schedule=interleaved", "layout.stages_per_rank=2")),
    "one rank": (1, ("layout.dp=1", "layout.tp=1", "layout.pp=1")),
}


def recipe_of(name: str):
    num_ranks, words = WORDS[name]
    return resolve(load_recipe("bloom_tiny", list(words)), num_ranks=num_ranks, tokenizer_size=257).recipe


@pytest.mark.parametrize("name", WORDS)
def test_the_log_covers_what_groups_carry_to_the_byte(name):
    shape = step_shape_of(recipe_of(name))
    decisions = boxing_decisions(shape, dtype="float32")
    tp, sharded = shape.tiling.tp, shape.mesh.axis_size(Axis.DP_SHARD)
    for pp_rank in range(shape.schedule.num_ranks):
        own = [each for each in decisions if each.pp_rank == pp_rank]
        traffic = rank_traffic(shape, shape.mesh.rank_at({Axis.PP: pp_rank}))
        stream = [each for each in own if each.runs.shape == (4, 128, 128) and each.runs.cross_bytes == 0]
        kind = TrafficKind.GATHER if shape.tiling.sequence_parallel else TrafficKind.ALL_REDUCE
        planned = [row for row in traffic if row.group == "tp" and row.kind is kind]
        factor = 1 if kind is TrafficKind.GATHER else 2
        # The loss' own all-reduces change no layout: two a micro-batch, three numbers a token.
        has_loss = factor == 2 and tp > 1 and pp_rank == shape.schedule.num_ranks - 1
        losses = (2 * 4, 3 * 4 * 4 * 128 * 4) if has_loss else (0, 0)
        assert sum(each.times for each in stream) == sum(row.num_calls for row in planned) - losses[0]
        received = factor * (tp - 1) * (sum(row.payload_bytes for row in planned) - losses[1])
        assert sum(each.step_bytes for each in stream) == received
        flat = sum(each.step_bytes for each in own if each.tensor in ("weights", "gradients"))
        groups = tp * shape.mesh.axis_size(Axis.DP_REPLICATE)
        assert flat == groups * (sharded - 1) * sum(row.payload_bytes for row in traffic if row.group == "dp")
        sums = sum(each.step_bytes for each in own if each.tensor == "gradients of replicas")
        replicas = [row for row in traffic if row.group == "dp_replicate"]
        assert sums == sum(2 * (row.num_ranks - 1) * row.payload_bytes for row in replicas) * tp * sharded
    edges = sum(each.step_bytes for each in decisions if each.runs.cross_bytes)
    ranks = [shape.mesh.rank_at({Axis.PP: pp_rank}) for pp_rank in range(shape.schedule.num_ranks)]
    sent = [row.payload_bytes for rank in ranks for row in rank_traffic(shape, rank) if row.group == "pp"]
    assert edges == tp * sum(sent)


def test_the_csv_has_seed_0s_columns_and_reads_back():
    decisions = boxing_of(recipe_of("without sequence parallel"))
    rows = list(csv.DictReader(io.StringIO(boxing_csv(decisions))))
    assert list(rows[0]) == CSV_HEADER.split(",")
    assert len(rows) == len(decisions)
    edge = next(row for row in rows if row["lbi"] == "stream")
    assert edge == {
        "src_op_name": "0F",
        "dst_op_name": "1F",
        "src_parallel_desc": "{0 1 (2)}",
        "dst_parallel_desc": "{4 5 (2)}",
        "src_nd_sbp": "(B)",
        "dst_nd_sbp": "(B)",
        "lbi": "stream",
        "dtype": "float32",
        "shape": "(4 128 128)",
        "builder": "transfer (B) to (B)",
        "received_bytes": "524288",
        "comment": "x4 a step; transfer (B) to (S(0)) -> all_gather S(0) to B on tp would receive 524,288 bytes, "
        "262,144 of them between meshes, not 524,288 and 524,288",
    }


def test_a_partial_that_a_split_would_serve_better_is_advised_against():
    finding = boxing_finding(boxing_of(recipe_of("without sequence parallel")))
    assert finding is not None and finding.severity == "notice"
    lines = explain_finding(finding).splitlines()
    assert lines[0] == (
        "M114 another layout or route would serve better: embedding, gradient of columns, sums of rows, "
        "head's gradient, stream, stream's gradient  [notice, inferred]"
    )
    assert lines[1] == (
        "  embedding, gradient of columns, sums of rows, head's gradient: (P) to (B) receives 524,288 bytes; "
        "to (S(1)) 262,144, and as many where it is needed whole; between, each rank holds 1/2 of it "
        "(layout.sequence_parallel=true)"
    )
    assert lines[-1] == "  next      take what the advice names in brackets, or leave it: nothing is wrong"


def test_the_same_layout_split_over_positions_gets_no_advice():
    for name in ("2x2x2", "zero 3, recomputation", "hsdp", "zero 0", "one rank"):
        decisions = boxing_of(recipe_of(name))
        assert boxing_finding(decisions) is None, name
        assert all(each.best.received_bytes == each.runs.received_bytes for each in decisions)


def test_the_table_and_the_json_say_each_decision():
    decisions = boxing_of(recipe_of("2x2x2"))
    text = boxing_text(decisions).splitlines()
    assert text[1] == "  changes of layout (boxing), one row for all of a kind"
    assert len(text) == 3 + len(decisions)
    assert text[7].split()[1:4] == ["sums", "of", "rows"]
    assert text[7].endswith("reduce_scatter P to S(1) on tp")
    assert boxing_json(decisions)[4]["builder"] == "reduce_scatter P to S(1) on tp"
    assert boxing_text(boxing_of(recipe_of("one rank"))) == ""

"""Snapshots of real jobs that hang, varied: the verdict follows. The programs lie in `tests/unseen/live_*`."""

import ast
import copy
import gzip
import io
import json
import re
import tokenize
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from emberward.diagnose import Frame
from emberward.diagnose.live import Snapshot
from emberward.findings import Finding
from emberward.sources.live import judge_snapshots

TESTS = Path(__file__).parents[2]
SNAPSHOTS, PROGRAMS = TESTS / "data" / "snapshots", TESTS / "unseen"
TRUTHS: Mapping[str, tuple[int | None, str, int | None]] = {
    "accel_gather": (0, "extra_collective", 39),
    "autotuned_sync": (1, "different_op", 17),
    "caption_guard": (2, "swallowed_exception", 58),
    "conveyor": (3, "unmatched_p2p", 46),
    "feature_pool": (1, "subprocess", 44),
    "gossip_edges": (None, "cycle_collective", None),
    "last_shard": (3, "uneven_data", 44),
    "long_context": (1, "missing_group", 28),
    "mailtags": (5, "unmatched_p2p", 20),
    "param_server": (2, "unmatched_p2p", 49),
    "patience": (1, "skipped_collective", 72),
    "pl_bad_rows": (1, "skipped_collective", 37),
    "pipe_reports": (2, "uneven_data", 68),
    "polite_store": (3, "store_wait", 50),
    "preempt": (1, "extra_collective", 44),
    "probe_words": (0, "extra_collective", 12),
    "rendezvous_book": (4, "store_wait", 29),
    "recall_meter": (0, "extra_collective", 23),
    "replica_pools": (2, "different_group", 41),
    "shard_reader": (0, "extra_collective", 22),
    "skipgram": (2, "skipped_collective", 44),
    "topk_router": (2, "skipped_collective", 29),
    "tp_inspect": (0, "extra_collective", 40),
    "turn_taking": (2, "store_wait", 26),
    "vocab_cache": (3, "lock", 43),
}
"""Culprit, cause and line; of a cycle nobody."""
IN_ONE_GROUP = (
    "accel_gather",
    "autotuned_sync",
    "patience",
    "preempt",
    "probe_words",
    "recall_meter",
    "skipgram",
    "topk_router",
    "tp_inspect",
)
"""Jobs whose ranks meet in collectives of the world alone: another rank may stand beside each."""
SHIFT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Snapshots as plain data, the program's text, and the culprit."""

    early: dict[str, Any] | None
    snapshot: dict[str, Any]
    exits: Mapping[int, int]
    text: str
    culprit: int | None


@cache
def recorded(name: str) -> Case:
    data = json.loads(gzip.decompress((SNAPSHOTS / f"{name}.json.gz").read_bytes()))
    exits = {int(rank): code for rank, code in data["exits"].items()}
    text = next(PROGRAMS.glob(f"live_*/{name}.py")).read_text()
    return Case(early=data["early"], snapshot=data["snapshot"], exits=exits, text=text, culprit=TRUTHS[name][0])


def told(case: Case) -> Finding:
    lines = case.text.splitlines()

    def line_of(frame: Frame) -> str | None:
        is_there = frame.file.startswith("/job/") and frame.line is not None and 0 < frame.line <= len(lines)
        return lines[frame.line - 1] if is_there and frame.line is not None else None

    early = None if case.early is None else Snapshot.from_json(case.early)
    return judge_snapshots(early, Snapshot.from_json(case.snapshot), line_of=line_of, exits=case.exits)[0]


def varied(case: Case, change: Callable[[dict[str, Any]], None], **others: Any) -> Case:
    early, snapshot = copy.deepcopy(case.early), copy.deepcopy(case.snapshot)
    for each in (early, snapshot):
        if each is not None:
            change(each)
    values = {"exits": case.exits, "text": case.text, "culprit": case.culprit, **others}
    return Case(early=early, snapshot=snapshot, **values)


def renamed(case: Case) -> Case:
    """Other names of variables, arguments and imported modules; functions keep theirs, which stacks tell."""
    tree = ast.parse(case.text)
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)} - {"self", "cls"}
    names |= {
        a.asname for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names if a.asname
    }
    names -= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    new, before = [], ""
    for token in tokenize.generate_tokens(io.StringIO(case.text).readline):
        is_variable = token.type == tokenize.NAME and token.string in names and before != "."
        new.append((token.type, f"{token.string}_other" if is_variable else token.string))
        before = token.string
    text = tokenize.untokenize(new)
    assert len(text.splitlines()) == len(case.text.splitlines())
    return varied(case, lambda _: None, text=text)


def shifted(case: Case) -> Case:
    """As a hundred thousand calls later."""

    def change(snapshot: dict[str, Any]) -> None:
        for rank in snapshot["ranks"]:
            ring = rank["ring"]
            for entry in ring["flight"]["entries"]:
                for key in ("collective_seq_id", "record_id", "ring_number"):
                    if isinstance(entry.get(key), int):
                        entry[key] += SHIFT
            for status in ring["flight"]["pg_status"].values():
                for key, value in status.items():
                    status[key] = value + SHIFT if isinstance(value, int) and value > 0 else value
            if ring["blocked_record"] is not None:
                ring["blocked_record"] += SHIFT
            ring["num_calls"], ring["num_done"] = ring["num_calls"] + SHIFT, ring["num_done"] + SHIFT
            ring["step"] = None if ring["step"] is None else ring["step"] + SHIFT

    return varied(case, change)


def permuted(case: Case) -> Case:
    """The ranks in the other order."""
    world = case.snapshot["world_size"] or len(case.snapshot["ranks"])

    def turn(rank: int) -> int:
        return world - 1 - rank

    def change(snapshot: dict[str, Any]) -> None:
        for rank in snapshot["ranks"]:
            rank["rank"] = turn(rank["rank"])
            for group in rank["ring"]["flight"]["pg_config"].values():
                if isinstance(group["ranks"], list):
                    group["ranks"] = sorted(map(turn, group["ranks"]))
            for entry in rank["ring"]["flight"]["entries"]:
                name = entry["profiling_name"]
                entry["profiling_name"] = re.sub(
                    r"(\d+)(<?->?)(\d+)", lambda m: f"{turn(int(m[1]))}{m[2]}{turn(int(m[3]))}", name
                )
        snapshot["ranks"].sort(key=lambda rank: rank["rank"])

    exits = {turn(rank): code for rank, code in case.exits.items()}
    return varied(case, change, exits=exits, culprit=None if case.culprit is None else turn(case.culprit))


def doubled(case: Case) -> Case:
    """Twice as many ranks: one more beside each that is innocent, and two more of one of them."""
    world = len(case.snapshot["ranks"])

    def change(snapshot: dict[str, Any]) -> None:
        innocent = [rank for rank in snapshot["ranks"] if rank["rank"] != case.culprit]
        for number in range(world, 2 * world):
            other = copy.deepcopy(innocent[number % len(innocent)])
            other["rank"], other["process"]["pid"] = number, other["process"]["pid"] + 10_000 * number
            snapshot["ranks"].append(other)
        snapshot["world_size"] = 2 * world
        for rank in snapshot["ranks"]:
            for group in rank["ring"]["flight"]["pg_config"].values():
                if len(group["ranks"]) == world or isinstance(group["ranks"], str):
                    group["ranks"] = list(range(2 * world))

    return varied(case, change)


def dropped(case: Case) -> Case:
    """Without the last innocent rank."""

    def change(snapshot: dict[str, Any]) -> None:
        gone = max(rank["rank"] for rank in snapshot["ranks"] if rank["rank"] != case.culprit)
        snapshot["ranks"] = [rank for rank in snapshot["ranks"] if rank["rank"] != gone]

    return varied(case, change)


VARIANTS = {"recorded": lambda case: case, "renamed": renamed, "shifted": shifted, "permuted": permuted}


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_verdict_is_about_what_happened_and_not_about_names_and_numbers(name: str, variant: str) -> None:
    case, (_, cause, line) = VARIANTS[variant](recorded(name)), TRUTHS[name]
    finding = told(case)
    ranks, site = () if case.culprit is None else (case.culprit,), None if line is None else f"{name}.py:{line}"
    assert (finding.culprit_ranks, finding.cause.value, finding.site) == (ranks, cause, site)


@pytest.mark.parametrize("name", IN_ONE_GROUP)
def test_twice_as_many_ranks_have_the_same_culprit(name: str) -> None:
    finding = told(doubled(recorded(name)))
    culprit, cause, _ = TRUTHS[name]
    assert (finding.culprit_ranks, finding.cause.value) == ((culprit,), cause)


@pytest.mark.parametrize("name", TRUTHS)
def test_without_a_rank_nobody_else_is_accused(name: str) -> None:
    finding = told(dropped(recorded(name)))
    assert set(finding.culprit_ranks) <= {TRUTHS[name][0]}


def test_another_size_at_one_line_is_one_call_more_only_where_it_is_new_and_under_a_condition() -> None:
    case = recorded("probe_words")

    def known(snapshot: dict[str, Any]) -> None:
        for rank in snapshot["ranks"]:
            for entry in rank["ring"]["flight"]["entries"][10:20:5]:
                entry["input_sizes"] = [[24]]

    assert told(varied(case, known)).cause.value == "shape"
    always = case.text.replace("if rank == 0 and step % 20 == 19:", "with torch.no_grad():")
    assert always != case.text
    assert told(varied(case, lambda _: None, text=always)).cause.value == "shape"

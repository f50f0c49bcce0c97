"""Run folders as a run would have left them, made in an instant: what the page's tests and its benchmark look at."""

import json
import math
import os
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from emberward.findings import Cause, Certainty, Finding, FindingPhase, Kind, Severity
from emberward.recipe import load_recipe, resolve
from emberward.report import (
    LagRows,
    LagWriter,
    RunFolder,
    append_line,
    lag_cells,
    preflight,
    preflight_json,
    write_json,
)

START = 1_795_300_000.0
HANG = Finding(
    code="H101",
    severity=Severity.ERROR,
    kind=Kind.HANG,
    cause=Cause.FILE_READ,
    certainty=Certainty.OBSERVED,
    message="rank 5 reads a file at data.py:88 and has not joined all_reduce 211; 7 ranks wait for it",
    culprit_ranks=(5,),
    waiting_ranks=(0, 1, 2, 3, 4, 6, 7),
    hosts=("node-01",),
    site="data.py:88",
    phase=FindingPhase(step=120, stage="F"),
    evidence=("rank 5 last issued all_reduce 210, its peers 211", "its stack: data.py:88 read, in 6 of 6 snapshots"),
    ruled_out=("a dead rank: all 8 processes live", "a mismatch: the calls before are alike"),
    next="emberward explain 4242",
)
STRAGGLER = Finding(
    code="H140",
    severity=Severity.WARNING,
    kind=Kind.STRAGGLER,
    cause=Cause.SLOW_RANK,
    certainty=Certainty.OBSERVED,
    message="rank 3 is waited for in every step: 180 ms of 0.500 s (36.0%)",
    culprit_ranks=(3,),
    waiting_ranks=(0, 1, 2, 4, 5, 6, 7),
    hosts=("node-00",),
    phase=FindingPhase(step=118),
    evidence=("rank 3: 180.0 ms more of its own than its peers in the middle, 40 standard errors, steps 3 to 118",),
    next="compare clocks, heat and other users of node-00 with another host's",
)
DEATH = Finding(
    code="L102",
    severity=Severity.ERROR,
    kind=Kind.CRASH,
    cause=Cause.KILLED,
    certainty=Certainty.OBSERVED,
    culprit_ranks=(1,),
    message="rank 1 died first: killed by SIGKILL",
    phase=FindingPhase(step=70),
    next="then resume from the last save",
)


def metrics_of(step: int, *, steps: int, step_s: float = 0.5) -> dict[str, Any]:
    """A line of ``metrics.jsonl``, the same each time."""
    draw = random.Random(step)
    return {
        "step": step,
        "steps": steps,
        "loss": 2 + 3 * math.exp(-step / (steps / 8)) + 0.05 * draw.random(),
        "grad_norm": 0.4 + 0.2 * draw.random(),
        "lr": 1e-3,
        "step_s": step_s * (1 + 0.05 * draw.random()),
        "data_s": 0.01 * step_s,
        "forward_s": 0.3 * step_s,
        "backward_s": 0.55 * step_s,
        "exchange_s": 0.1 * step_s,
        "optimizer_s": 0.04 * step_s,
        "tokens_per_s": 4096 / step_s * (1 + 0.05 * draw.random()),
        "mfu": 0.41,
        "skipped": 0,
        "nan": 0,
    }


def write_metrics(folder: RunFolder, rows: Iterable[dict[str, Any]]) -> None:
    """Appends many steps at once."""
    with folder.metrics.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def text_of(unix: float) -> str:
    """A moment as a diary has it."""
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="seconds")


def start(folder: RunFolder, attempt: int, *, num_ranks: int, at_unix: float = START + 40_800, **more: Any) -> None:
    """The start line of an attempt."""
    line = {"event": "start", "attempt": attempt, "start": text_of(at_unix), "num_ranks": num_ranks}
    append_line(folder.attempts, {**line, "host": "node-00", "changed": [], "saved_step": None, **more})


def end(folder: RunFolder, attempt: int, outcome: str, *, at_unix: float = START + 44_400, **more: Any) -> None:
    """The end line of an attempt."""
    line = {"event": "end", "attempt": attempt, "end": text_of(at_unix), "outcome": outcome, "hours": 1.0}
    append_line(folder.attempts, {**line, "hours_lost": 0.0, "why": outcome, **more})


def write_ranks(folder: RunFolder, num_ranks: int, *, a_host: int = 4) -> None:
    """Who the ranks are: pp 2, tp 2, the rest dp."""
    folder.ranks.mkdir(parents=True, exist_ok=True)
    for rank in range(num_ranks):
        half = max(num_ranks // 2, 1)
        at = {"pp": rank // half, "dp": rank % half // 2, "tp": rank % 2}
        write_json(
            folder.rank_file(rank),
            {"rank": rank, "pid": 4000 + rank, "host": f"node-{rank // a_host:02}", "coordinates": at, "device": "CPU"},
        )


def write_lag(
    folder: RunFolder,
    num_ranks: int,
    steps: range,
    *,
    slow: int | None,
    step_s: float = 0.5,
    a_host: int | None = None,
) -> None:
    """The lag of `steps`, with one slow rank; a file for each host of `a_host` ranks, or one for all."""
    rng = np.random.default_rng(0)
    lag = rng.gamma(2.0, 0.002, (len(steps), num_ranks))
    if slow is not None:
        lag[:, slow] += 0.36 * step_s
    cells = lag_cells(lag)
    size = num_ranks if a_host is None else a_host
    for first in range(0, num_ranks, size):
        ranks = tuple(range(first, min(first + size, num_ranks)))
        of_host = cells[:, first : first + size]
        LagWriter(folder.lag, f"node-{first // size:02}").write(
            LagRows(
                level=1,
                ranks=ranks,
                programs=("a",),
                program_of=(0,) * len(ranks),
                steps=np.array(steps, dtype=np.int64),
                length_s=np.full(len(steps), step_s, dtype=np.float32),
                middle_s=np.full((len(steps), 1), 0.3, dtype=np.float32),
                most=of_host,
                mean=of_host,
            )
        )


@cache
def preflight_page() -> dict[str, Any]:
    """The pre-flight page of a small recipe on 8 ranks, as ``emberward check --json`` has it."""
    overrides = ["layout.dp=1", "layout.pp=4", "layout.tp=2", "precision.compute=bf16"]
    resolved = resolve(load_recipe("bloom_tiny", overrides), num_ranks=8, tokenizer_size=257)
    return preflight_json(preflight(resolved, hardware="a100", hosts=["a", "b"]))


def say(folder: RunFolder, phase: str, step: int, steps: int, *, age_s: float, now_unix: float) -> None:
    """What rank 0 does, and when the last step was written."""
    write_json(
        folder.progress, {"phase": phase, "step": step, "steps": steps, "detail": None, "time_unix": now_unix - age_s}
    )
    os.utime(folder.metrics, (now_unix - age_s, now_unix - age_s))


def make(kind: str, root: Path, *, now_unix: float = START + 3600) -> RunFolder:
    """A run of a kind: healthy, hang, straggler, spike, restart, large (1,024 ranks), hostile, empty or corrupt."""
    folder = RunFolder(path=root / kind / "20261122-094640-ab12")
    folder.path.mkdir(parents=True)
    folder.config.write_text("name: " + json.dumps(kind) + "\nsteps: 200  # command line\n", encoding="utf-8")
    if kind == "empty":
        return folder
    if kind == "corrupt":
        folder.metrics.write_bytes(b'{"step": 1, "loss": 2.0}\n\x00\xff\xfe not json\n{"step": 2, "lo')
        for path in (folder.attempts, folder.findings, folder.progress, folder.summary, folder.evals):
            path.write_bytes(b'[1, 2\n{"event": "start", "attempt": "one"}\n\xff\n')
        folder.ranks.mkdir()
        folder.rank_file(0).write_text("[]")
        folder.lag.mkdir()
        (folder.lag / "node-00-001-000001.lag").write_bytes(b"EWL1" + b"\xff" * 40)
        return folder
    num_ranks = 1024 if kind == "large" else 8
    a_host = 8 if kind == "large" else 4
    write_ranks(folder, num_ranks, a_host=a_host)
    rows = [metrics_of(step, steps=200) for step in range(1, 121)]
    if kind == "spike":
        rows[89] |= {"loss": 9.75, "grad_norm": 44.0}
        rows[90] |= {"loss": None, "grad_norm": None, "nan": 1, "skipped": 1}
    write_metrics(folder, rows)
    append_line(folder.evals, {"step": 60, "sets": {"held out": {"loss": 2.9, "tokens": 2048}}, "seconds": 1.0})
    append_line(folder.evals, {"step": 120, "sets": {"held out": {"loss": 2.4, "tokens": 2048}}, "seconds": 1.0})
    if kind == "restart":
        start(folder, 1, num_ranks=8, at_unix=now_unix - 4000)
        end(
            folder,
            1,
            "failed",
            at_unix=now_unix - 400,
            last_step=70,
            hours_lost=0.2,
            why=DEATH.message,
            cause="killed",
            code="L102",
        )
        append_line(folder.findings, {**DEATH.to_json(), "attempt": 1})
        start(folder, 2, num_ranks=8, at_unix=now_unix - 380, saved_step=50, changed=["torch 2.12.0 -> 2.13.0"])
    else:
        start(folder, 1, num_ranks=num_ranks, at_unix=now_unix - 330)
    write_lag(folder, num_ranks, range(1, 121), slow=3 if kind in ("straggler", "large") else None, a_host=a_host)
    if kind == "healthy":
        write_json(folder.preflight, preflight_page())
    if kind == "hang":
        append_line(folder.findings, {**HANG.to_json(), "attempt": 1, "seen": "2026-11-22T10:40:00+00:00"})
    if kind in ("straggler", "large"):
        append_line(folder.findings, {**STRAGGLER.to_json(), "attempt": 1})
    if kind == "hostile":
        _hostile(folder)
    say(folder, "train", 120, 200, age_s=252.0 if kind == "hang" else 0.4, now_unix=now_unix)
    return folder


BAD = "</script><img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def _hostile(folder: RunFolder) -> None:
    """Markup and scripts in every text that others can decide."""
    finding = HANG.to_json() | {"message": BAD, "hosts": [BAD], "site": BAD, "evidence": [BAD], "ruled_out": [BAD]}
    append_line(folder.findings, {**finding, "next": BAD})
    append_line(folder.evals, {"step": 120, "sets": {BAD: {"loss": 2.4, "tokens": 1}}, "seconds": 1.0})
    write_json(
        folder.rank_file(0), {"rank": 0, "pid": BAD, "host": BAD, "coordinates": {"pp": 0, BAD: 0, "dp": 0, "tp": 0}}
    )
    end(folder, 1, BAD, why=BAD)
    start(folder, 2, num_ranks=8, changed=[BAD])
    folder.logs.mkdir()
    folder.rank_log(0).write_bytes(
        BAD.encode() + b"\n\x1b[31m\x00\xff" + b"x" * (1 << 20) + b"\n" + BAD.encode() + b"\n"
    )
    folder.config.write_text(BAD, encoding="utf-8")

"""Runs the programs of an unseen set under ``emberward run --json`` and scores what it says against their truth.

    python tools/campaign_live.py [--set SET] [--first-contact] [--at-once N] [--minutes M] [--seed S] [NAME ...]

A set is a folder of tests/unseen ([Note: unseen sets]) with ``truth.json``, ``accept.json`` and programs. Each program
runs alone in a scratch folder, without the marks of its author.

A fault gives four points: verdict (kind), ranks, cause, line, of the first error that was said, or where there was none
of the first finding. Words that ``accept.json`` calls weak give none; they are counted apart. A look-alike gives one,
for no error. *All right* is ranks, cause and line without another error; an *innocent* is a rank that an error names
and no accepted answer does. A run that would go on is ended some seconds after its first error, or at its limit.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from campaign_artefacts import copy_programs, lines_of
from unseen import SETS, add_set_options, contact

MEASURES = [f"src/emberward/{room}" for room in ("sources", "supervise", "health", "diagnose", "match", "events")]
BIN = Path(sys.executable).parent
POINTS = ("verdict", "ranks", "cause", "line")
SAME_WORD = {"thread_died": "queue"}
"""Our word and what an author calls it: his is of the wait for a queue, ours of the thread that fed it."""
KEYS = ("severity", "code", "kind", "cause", "certainty", "culprit_ranks", "site", "message")
POLL_S = 0.25
STANDS_S = 12.0
"""How long a run goes on after its first error, for a second one and for the end that the error asks for."""
FAULT_LIMIT_S = 150.0
"""Three times what the slowest fault needed to show on a machine that did nothing else."""
QUIET_LIMIT_S = 360.0
"""Four times what the slowest look-alike needed there."""
END_LIMIT_S = 60.0


def said_in(folder: Path) -> list[dict[str, Any]]:
    """The findings so far, in the order in which they were said."""
    lines = [line for path in sorted(folder.glob("x/*/findings.jsonl")) for line in path.read_text().splitlines()]
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def watch(program: Path, truth: dict[str, Any], folder: Path) -> tuple[list[dict[str, Any]], int | None, float | None]:
    """What was said of the program, its exit code (None when we ended it), and seconds to the first error."""
    command = [
        str(BIN / "emberward"), "run", "--json", "--runs", str(folder), "--name", "x", "--act-after", "6",
        "--grace-s", "2", "--", str(BIN / "torchrun"), "--nproc-per-node", str(truth["nproc"]),
        "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", str(program), *truth["args"],
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder), **truth["env"]}
    began_s, error_s = time.monotonic(), None
    limit_s = FAULT_LIMIT_S if truth["is_fault"] else QUIET_LIMIT_S
    with (folder / "output").open("wb") as file:
        job = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment, cwd=folder
        )
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                # What is said in a job's last moment counts too: read after its end.
                code = job.wait(POLL_S)
                return said_in(folder), code, error_s
            now_s, said = time.monotonic() - began_s, said_in(folder)
            if error_s is None and any(each["severity"] == "error" for each in said):
                error_s = now_s
            if now_s > (limit_s if error_s is None else error_s + STANDS_S):
                job.terminate()
                try:
                    job.wait(END_LIMIT_S)
                except subprocess.TimeoutExpired:
                    job.kill()
                    job.wait()
                return said, None, error_s


def is_accepted(truth: dict[str, Any], finding: dict[str, Any]) -> dict[str, bool]:
    """Which of the points one finding has. `truth` has the entries of truth.json and accept.json."""
    accept, names = truth["accept"], sorted(finding["culprit_ranks"])
    ranks = [sorted(each) for each in (*truth["ranks"], *accept.get("more_ranks", ()))]
    members = sorted({member["rank"] for member in finding.get("cycle") or ()})
    lines = {*truth["lines"], *accept["lines"], *(() if names else accept.get("lines_if_no_culprit", ()))}
    return {
        "verdict": finding["kind"] in accept["kinds"],
        "ranks": names in ranks or (bool(members) and members in ranks),
        "cause": bool({finding["cause"], SAME_WORD.get(finding["cause"])} & {*accept["causes"]}),
        "line": bool(lines_of(finding) & lines),
    }


def score(truth: dict[str, Any], said: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is right of the first error, how many others there are, and which innocents are named."""
    errors = [each for each in said if each["severity"] == "error"]
    accepted = [*truth["ranks"], *truth["accept"].get("more_ranks", ())]
    guilty = {rank for ranks in accepted for rank in ranks}
    innocents = sorted({rank for each in errors for rank in each["culprit_ranks"]} - guilty)
    if not truth["is_fault"]:
        return {"points": {"quiet": not errors}, "innocents": innocents, "others": 0}
    first = next(iter(errors or [each for each in said if each["cause"] != "none"]), None)
    if first is None:
        return {"points": dict.fromkeys(POINTS, False), "innocents": [], "others": 0}
    incidents = {(each["cause"], *each["culprit_ranks"]) for each in errors}
    return {
        "points": is_accepted(truth, first),
        "weak_cause": first["cause"] in truth["accept"].get("weak_causes", ()),
        "weak_verdict": first["kind"] in truth["accept"].get("weak_kinds", ()),
        "innocents": innocents,
        "others": max(0, len(incidents) - 1),
    }


def run(truth: dict[str, Any]) -> dict[str, Any]:
    """One program under `emberward run`: what was said, and its score."""
    load, began_s = os.getloadavg()[0], time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder, programs = Path(scratch), Path(scratch, "programs")
        programs.mkdir()
        copy_programs({truth["file"]}, programs)
        said, code, error_s = watch(programs / truth["file"], truth, folder)
        output = (folder / "output").read_text(errors="replace")
    missing = "ModuleNotFoundError" in output and "No module named" in output
    return {
        "program": truth["file"],
        "is_fault": truth["is_fault"],
        "num_ranks": truth["nproc"],
        "framework": truth["framework"],
        **score(truth, said),
        "exit_code": code,
        "error_s": None if error_s is None else round(error_s, 1),
        "seconds": round(time.monotonic() - began_s, 1),
        "load": round(load, 1),
        "said": [{key: each.get(key) for key in KEYS} for each in said],
        **({"output": output[-600:]} if missing or (not said and truth["is_fault"]) else {}),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all programs that ran."""
    faults = [row for row in rows if row["is_fault"]]
    got = Counter(name for row in faults for name, is_right in row["points"].items() if is_right)
    points, most = sum(sum(row["points"].values()) for row in rows), sum(len(row["points"]) for row in rows)
    return {
        "programs": len(rows),
        "points": points,
        "of": most,
        "share": round(points / max(most, 1), 3),
        "faults": {"num": len(faults), **{name: got[name] for name in POINTS}},
        "all_right": sum(
            all(row["points"][name] for name in ("ranks", "cause", "line")) and not row["others"] for row in faults
        ),
        "weak_causes": sum(row.get("weak_cause", False) for row in faults),
        "look_alikes": {
            "num": len(rows) - len(faults),
            "quiet": sum(row["points"]["quiet"] for row in rows if not row["is_fault"]),
        },
        "with_innocents": sorted(row["program"] for row in rows if row["innocents"]),
    }


def main() -> int:
    """Exit code 1 when an innocent is named or a look-alike alarms; 2 when no case was due."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="live_1", help="a folder of tests/unseen")
    add_set_options(parser)
    options = parser.parse_args()
    folder = SETS / options.set
    accepted = json.loads((folder / "accept.json").read_text())
    truths = {
        truth["file"]: {**truth, "accept": accepted[truth["file"]]}
        for truth in json.loads((folder / "truth.json").read_text())
    }
    total = contact(
        options,
        truths,
        lambda name: run(truths[name]),
        summary,
        what=f"programs of {options.set} under `emberward run`, against their author's truth",
        measures=MEASURES,
        tell=lambda row: f"{row['points']} {row['innocents']} {row['seconds']} s",
    )
    if total is None:
        return 2
    return 1 if total["with_innocents"] or total["look_alikes"]["quiet"] < total["look_alikes"]["num"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs the held-out programs under `emberward run` and compares the findings with the truth.

Their authors had not seen the judge; what they found wrong was fixed by rules, not by names.

Usage: python tools/campaign_held_out.py [--at-once N] [--minutes M] [--fresh] [NAME ...]

The programs are in tests/ranks/held_out/faults and healthy; tests/ranks/held_out_truth.py says how each states
what is true of it. Writes docs/measured/held_out.json after each run; what that holds is not run again in the same
round.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measured import Results, add_options

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

# mypy does not see tests/.
from ranks.held_out_truth import PROGRAMS, Truth, truth_of  # type: ignore[import-not-found] # noqa: E402

BIN = Path(sys.executable).parent
POLL_S = 0.2
VERDICT_LIMIT_S = 55.0
"""After the fault; then the run is ended."""
START_LIMIT_S = 180.0
NOTICE_STANDS_S = 5.0
"""How long a notice that is right is watched for an error that would be wrong."""


def findings_in(folder: Path) -> list[dict[str, Any]]:
    """What the run has said so far."""
    lines = [line for path in folder.glob("x/*/findings.jsonl") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def has_right_ranks(truth: Truth, finding: dict[str, Any]) -> bool:
    """Whether the culprits are those of the truth."""
    return "*" in truth.ranks or ",".join(map(str, sorted(finding["culprit_ranks"]))) in truth.ranks


def has_right_line(truth: Truth, finding: dict[str, Any]) -> bool:
    """Whether the finding, or a member of its cycle, is at a marked line."""
    sites = [finding["site"], *(member["site"] for member in finding["cycle"] or ())]
    numbers = {int(site.rpartition(":")[2]) for site in sites if site is not None and site.rpartition(":")[2].isdigit()}
    return not truth.lines or bool(numbers & set(truth.lines))


def is_named(truth: Truth, finding: dict[str, Any]) -> bool:
    """Whether cause and ranks are right."""
    return finding["cause"] in truth.causes and has_right_ranks(truth, finding)


@dataclass
class Watched:
    """What a run said, when, and how it ended. `froze_unix`: when the program said that its fault begins."""

    said: list[tuple[float, dict[str, Any]]]
    froze_unix: float | None = None
    exit_code: int | None = None


def named_in(truth: Truth, watched: Watched) -> list[tuple[float, dict[str, Any]]]:
    """When cause and ranks were said rightly; what was said before the fault is about something else."""
    since = watched.froze_unix or 0.0
    return [(at, finding) for at, finding in watched.said if at >= since and is_named(truth, finding)]


def judged(truth: Truth, watched: Watched) -> list[str]:
    """What is wrong with what was said; empty when all is right."""
    findings, code = [finding for _, finding in watched.said], watched.exit_code
    errors = [finding for finding in findings if finding["severity"] == "error"]
    if truth.is_healthy:
        return [*(["false alarm"] if errors else []), *([] if code == 0 else [f"exit code {code}"])]
    named = [finding for _, finding in named_in(truth, watched)]
    if not named:
        return ["not named"]
    wrong = [] if any(has_right_line(truth, finding) for finding in named) else ["line"]
    if truth.is_sure and not any(finding in errors for finding in named):
        wrong.append("no error")
    if not truth.is_sure and errors:
        wrong.append("an error for what may come by itself")
    if any(error not in named for error in errors):
        wrong.append("another error")
    return wrong


def watch(program: Path, truth: Truth, scratch: Path) -> Watched:
    """Runs the program to its end, or to that which we make when the verdict stands or is late."""
    command = [
        str(BIN / "emberward"), "run", "--json", "--runs", str(scratch), "--name", "x", "--act-after", "6",
        "--grace-s", "2", "--", str(BIN / "torchrun"), "--nproc-per-node", str(truth.num_ranks),
        "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", str(program),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "TMPDIR": str(scratch)}
    seen: dict[str, tuple[float, dict[str, Any]]] = {}
    watched = Watched(said=[])
    output, began_s = scratch / "output", time.monotonic()
    with output.open("wb") as file:
        job = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment, cwd=scratch
        )
        while watched.exit_code is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                watched.exit_code = job.wait(POLL_S)
            freeze = re.search(r"FREEZE ([\d.]+)", output.read_text(errors="replace"))
            watched.froze_unix = float(freeze[1]) if freeze else None
            for finding in findings_in(scratch):
                seen.setdefault(json.dumps(finding), (time.time(), finding))
            watched.said = list(seen.values())
            if watched.exit_code is None and is_enough(truth, watched, time.monotonic() - began_s):
                job.terminate()
                watched.exit_code = job.wait(60.0)
    return watched


def is_enough(truth: Truth, watched: Watched, seconds: float) -> bool:
    """Whether a run that would go on has said what it had to, or had its time."""
    if truth.is_healthy or watched.froze_unix is None:
        return seconds > START_LIMIT_S
    now_unix = time.time()
    named = [at for at, _ in named_in(truth, watched)]
    stands = bool(named) and not truth.is_sure and now_unix - min(named) > NOTICE_STANDS_S
    return stands or now_unix - watched.froze_unix > VERDICT_LIMIT_S


def run(program: Path, scratch: Path) -> dict[str, Any]:
    """One program under `emberward run`: what was said, when, and what of it is wrong."""
    truth, load = truth_of(program), os.getloadavg()[0]
    watched = watch(program, truth, scratch)
    findings = [finding for _, finding in watched.said]
    told = [at for at, f in named_in(truth, watched) if f["severity"] == "error" or not truth.is_sure]
    froze = watched.froze_unix
    return {
        "program": program.stem,
        "is_healthy": truth.is_healthy,
        "num_ranks": truth.num_ranks,
        "set": truth.number,
        "truth": {"ranks": truth.ranks, "causes": truth.causes, "lines": truth.lines, "is_sure": truth.is_sure},
        "wrong": judged(truth, watched),
        "verdict_s": round(min(told) - froze, 1) if told and froze is not None else None,
        "said": [
            {key: f[key] for key in ("severity", "code", "cause", "culprit_ranks", "site", "message")} for f in findings
        ],
        "exit_code": watched.exit_code,
        "load": round(load, 1),
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all programs, and over each set of them."""
    sets = sorted({each["set"] for each in runs})
    return {**counts(runs), "sets": {str(n): counts([each for each in runs if each["set"] == n]) for n in sets}}


def counts(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """How many were right, and how soon."""
    faults = [each for each in runs if not each["is_healthy"]]
    times = sorted(r["verdict_s"] for r in faults if r["verdict_s"] is not None and r["truth"]["is_sure"])
    return {
        "faults": len(faults),
        "all_right": sum(not each["wrong"] for each in faults),
        "healthy": len(runs) - len(faults),
        "quiet": sum(not each["wrong"] for each in runs if each["is_healthy"]),
        "freeze_to_error_s_median": times[len(times) // 2] if times else None,
        "freeze_to_error_s_max": times[-1] if times else None,
    }


def main() -> int:
    """Exit code 1 when something that was said is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no program later than this")
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "held_out",
        what="programs of authors who had not seen the judge, under `emberward run`, after their first contact",
        measures=[
            "src/emberward/sources",
            "src/emberward/diagnose",
            "src/emberward/supervise",
            "src/emberward/health",
            "src/emberward/match",
        ],
        is_fresh=options.fresh,
        folder=options.into,
    )
    programs = [p for kind in ("faults", "healthy") for p in sorted((PROGRAMS / kind).glob("*.py"))]
    programs = [
        p
        for p in programs
        if not results.has(f"{p.parent.name}/{p.stem}") and (not options.names or p.stem in options.names)
    ]
    ends_s = time.monotonic() + 60.0 * options.minutes
    lock = threading.Lock()

    def one(program: Path) -> None:
        if time.monotonic() > ends_s:
            return
        with tempfile.TemporaryDirectory(prefix="emberward-held-out-") as folder:
            result = run(program, Path(folder))
        sys.stderr.write(f"{result['program']} {result['verdict_s']} s {result['wrong'] or 'right'}\n")
        with lock:
            results.add(f"{program.parent.name}/{program.stem}", result)

    with ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(one, programs))
    runs = list(results.latest().values())
    results.summarise(summary(runs))
    return int(any(each["wrong"] for each in runs))


if __name__ == "__main__":
    sys.exit(main())

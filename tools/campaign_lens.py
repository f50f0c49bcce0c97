"""Profiles the programs of an unseen set by ``emberward profile`` and scores its findings against their truth.

    python tools/campaign_lens.py [--set SET] [--first-contact] [--minutes M] [PROGRAM ...]

A set is a folder of tests/unseen ([Note: unseen sets]): training programs with one planted cause of lost time each,
look-alikes that lose little, and ``truth.json``, committed before the profiler met them.

A program with a planted cause gives a point for a finding with an accepted cause and one for an accepted line of that
finding. A look-alike is *accused falsely* when the cause that it only looks like is named, or its line. The cost that
was found stands beside the planted one; the latter was measured on a busy machine.
"""

import argparse
import contextlib
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from unseen import SETS, add_set_options, answer_of, contact

MEASURES = ["src/emberward/lens", "src/emberward/cli/_profile.py"]
LIMIT_S = 240.0
KINDS = ("stall", "exposed", "waste")
SAME_WORD = {"issued_late": "late_issue", "waited_early": "early_wait", "shared_lane": "same_lane", "metrics": "eval"}
"""Words of a truth for causes that the product calls otherwise."""
_MARKER = re.compile(r"[ \t]*#: LINE[ \t]*$", re.MULTILINE)


@contextlib.contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """A copy of a program's folder, without the marks of its lines."""
    with tempfile.TemporaryDirectory() as place:
        here = Path(place, "job")
        shutil.copytree(folder, here)
        for path in here.glob("*.py"):
            path.write_text(_MARKER.sub("", path.read_text()))
        yield here


def torchrun(num_ranks: int) -> list[str]:
    """The command before a program of so many ranks."""
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(num_ranks), "--standalone"]


def profile(folder: Path, launch: list[str], arguments: list[str], *options: str) -> tuple[int | None, dict[str, Any]]:
    """The exit code and document of a run under `profile` with `options`; (None, {}) when it did not end in LIMIT_S."""
    with copied(folder) as here:
        words = ["profile", "--json", *options, "--", *launch, "train.py", *arguments]
        return answer_of(words, folder=here, limit_s=LIMIT_S)


def site_of(finding: dict[str, Any]) -> str:
    """The last two parts of the finding's line: the file's name and its number."""
    return str(finding.get("site") or "").rpartition("/")[2]


def is_examined(document: dict[str, Any]) -> bool:
    """Whether the profiler ended by itself with an answer, be it that nothing was found."""
    return "findings" in document


def named_by(truth: dict[str, Any], document: dict[str, Any]) -> dict[str, Any] | None:
    """The finding with an accepted cause, if there is one, with an accepted line rather than without."""
    found = [each for each in document.get("findings", ()) if each["kind"] in KINDS]
    named = [each for each in found if each["cause"] in words(truth["cause"])]
    return next((each for each in named if has_line(truth, each)), named[0] if named else None)


def words(causes: Sequence[str] | None) -> set[str]:
    """The product's words for the causes of a truth."""
    return {SAME_WORD.get(each, each) for each in causes or ()}


def has_line(truth: dict[str, Any], finding: dict[str, Any]) -> bool:
    """Whether a finding has an accepted line."""
    return site_of(finding) in {truth["line"], *truth["accept_lines"]}


def score(truth: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """What is right of the findings."""
    found = [each for each in document.get("findings", ()) if each["kind"] in KINDS]
    if truth["healthy"]:
        wrong = [
            each
            for each in found
            if each["cause"] in words(truth.get("not_cause")) or site_of(each) == truth.get("lookalike_line")
        ]
        return {"is_right": is_examined(document) and not wrong, "wrong": [each["cause"] for each in wrong]}
    best = named_by(truth, document)
    is_right = best is not None and has_line(truth, best)
    return {
        "points": {"cause": best is not None, "line": is_right},
        "is_right": is_right,
        "is_first": bool(found) and best is found[0],
        "cost_ms_per_step": None if best is None else best.get("cost_ms_per_step"),
        "planted_ms_per_step": truth["planted_ms_per_step"],
    }


def run(folder: Path, truth: dict[str, Any]) -> dict[str, Any]:
    """One program: what was said, and its score."""
    began = time.monotonic()
    code, document = profile(folder, torchrun(truth["nproc"]), truth["args"])
    keys = ("code", "severity", "kind", "cause", "site", "cost_ms_per_step", "gain_ms_per_step")
    unreadable = {"unreadable": document["unreadable"]} if "unreadable" in document else {}
    return {
        "is_healthy": truth["healthy"],
        "truth": truth["cause"],
        **score(truth, document),
        "is_examined": is_examined(document),
        "exit_code": code,
        "seconds": round(time.monotonic() - began, 1),
        "said": [{key: each.get(key) for key in keys} for each in document.get("findings", ())],
        **unreadable,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all programs."""
    faulty = [row for row in rows if not row["is_healthy"]]
    return {
        "planted": len(faulty),
        "cause_right": sum(row["points"]["cause"] for row in faulty),
        "cause_and_line_right": sum(row["is_right"] for row in faulty),
        "look_alikes": len(rows) - len(faulty),
        "accused_falsely": sum(bool(row["wrong"]) for row in rows if row["is_healthy"]),
        "not_examined": sum(not row["is_examined"] for row in rows),
    }


def main() -> int:
    """Exit code 1 when a look-alike was accused; 2 when the set has had no first contact."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="lens_1", help="a folder of tests/unseen")
    add_set_options(parser)
    options = parser.parse_args()
    folder = SETS / options.set
    truths = json.loads((folder / "truth.json").read_text())
    total = contact(
        options,
        truths,
        lambda name: run(folder / "programs" / name, truths[name]),
        summary,
        what=f"programs of {options.set} under `emberward profile`, against their author's truth",
        measures=MEASURES,
        tell=lambda row: f"{'right' if row['is_right'] else 'WRONG'} {row['seconds']} s",
    )
    return 2 if total is None else 1 if total["accused_falsely"] else 0


if __name__ == "__main__":
    sys.exit(main())

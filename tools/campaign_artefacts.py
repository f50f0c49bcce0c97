"""Explains the artefacts of an unseen set by ``emberward explain`` and scores the verdicts against their truth.

    python tools/campaign_artefacts.py [--set SET] [--first-contact] [--without-source] [--details] [NAME ...]

A set is a folder of tests/unseen with ``truth.json``, ``accept.json`` and a folder of dumps, stacks and logs for each
case, committed before the judge met it. The truth is prose; ``accept.json`` holds which words of ours and which lines a
fair expert accepts for it, and which of them the files of the folder can tell at all, by an author who knew no answer.
With ``--first-contact`` the result goes into docs/measured/first_contact/SET.json, once and for ever; without, into
docs/measured/unseen_SET.json, which needs that first contact.

A fault gives a point for each of ranks, cause and line that its files can tell. A look-alike gives one, for no error.
A set whose truth has ``parts`` is explained whole, for its points, and each part alone (``NAME/PART``), for none: the
summary says where a part alone was judged better than the whole.
An *innocent* is a rank that an error names and no accepted answer does. Stacks may carry no rank: then a verdict names
pids, and these are taken for ranks in ascending order of the processes of each file that are no launcher's, ranks
without artefacts left out.
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from unseen import SETS, add_set_options, answer_of, contact

MEASURES = ["src/emberward/sources/dumps", "src/emberward/diagnose", "src/emberward/match", "src/emberward/events"]
LIMIT_S = 120.0
POINTS = ("ranks", "cause", "line")
_PROCESS = re.compile(r"^Process (\d+): (.*)$", re.MULTILINE)
_MARKER = re.compile(r"[ \t]*#: LINE[ \t]*$", re.MULTILINE)
_LAUNCHER = re.compile(r"torchrun|torch\.distributed\.(?:run|launch)")
_WORKER = re.compile(r"\((?:torch/utils/data/_utils/worker|multiprocessing/pool)\.py:\d+\)")
"""A frame of a process that a rank started: py-spy gives it the rank's own command."""


def explain(folder: Path, programs: Path | None) -> tuple[int | None, dict[str, Any]]:
    """The exit code and document of ``emberward explain``; (None, {}) when it did not end in LIMIT_S."""
    with tempfile.TemporaryDirectory() as empty:
        artefacts = Path(empty, "artefacts")
        shutil.copytree(folder, artefacts, ignore=shutil.ignore_patterns("truth.json"))
        words = ["explain", "--json", str(artefacts), *([] if programs is None else ["--source", str(programs)])]
        return answer_of(words, folder=empty, limit_s=LIMIT_S)


def ranks_of_pids(folder: Path, truth: dict[str, Any]) -> dict[int, int]:
    """The rank of each pid that the stacks of a set tell, by the order in which a launcher starts its ranks."""
    pids: list[int] = []
    for path in sorted(folder.rglob("*")):
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        begins = [*_PROCESS.finditer(text)]
        ends = [*(each.start() for each in begins[1:]), len(text)]
        found = {
            int(each[1])
            for each, end in zip(begins, ends, strict=False)
            if not _LAUNCHER.search(each[2]) and not _is_worker(text[each.start() : end])
        }
        pids += sorted(found - set(pids))
    ranks = [rank for rank in range(truth["nproc"]) if rank not in truth.get("absent_ranks", ())]
    return dict(zip(pids, ranks, strict=False))


def _is_worker(stacks: str) -> bool:
    """Whether the main thread of a process runs a data or pool worker; a pool's manager is a thread of a rank."""
    main = stacks.partition("MainThread")[2].partition("\nThread ")[0]
    return _WORKER.search(main) is not None and ("_worker_loop" in main or " worker (" in main)


def named(finding: dict[str, Any], by_pid: dict[int, int]) -> list[int]:
    """The ranks that a finding calls culprits; -1 for a pid of which no rank is known."""
    return sorted([*finding["culprit_ranks"], *(by_pid.get(pid, -1) for pid in finding["culprit_pids"])])


def lines_of(finding: dict[str, Any]) -> set[int | str]:
    """The lines that the finding names, as numbers and as ``file:line``: its own, and those of a cycle's members."""
    sites = [finding.get("site"), *(member.get("site") for member in finding.get("cycle") or ())]
    told = [site for site in sites if site and site.rpartition(":")[2].isdigit()]
    return {int(site.rpartition(":")[2]) for site in told} | {site.rpartition("/")[2] for site in told}


def score(truth: dict[str, Any], document: dict[str, Any], by_pid: dict[int, int]) -> dict[str, Any]:
    """What is right of the first error, whether there is a second one, and which innocents are named.

    `truth` has the entries of truth.json and accept.json.
    """
    errors = [each for each in document.get("findings", ()) if each["severity"] == "error"]
    accepted = [sorted(ranks) for ranks in truth["ranks"]]
    guilty = {rank for ranks in accepted for rank in ranks}
    innocents = sorted(
        {rank for each in errors if not _is_accepted(each, truth) for rank in named(each, by_pid)} - guilty
    )
    if not truth["is_fault"]:
        return {"points": {"quiet": not errors and bool(document)}, "innocents": innocents, "others": 0}
    # A fair "cannot tell" is a warning: it may have the cause and the line, and names nobody.
    first = (errors or document.get("findings") or [None])[0]
    points = dict.fromkeys(POINTS, False)
    if first is not None:
        members = sorted({member["rank"] for member in first.get("cycle") or ()})
        names = named(first, by_pid)
        lines = {*truth["lines"], *truth["accept"]["lines"]}
        if not names:
            lines |= set(truth["accept"].get("lines_if_no_culprit", ()))
        points = {
            "ranks": names in (accepted or [[]])
            or (bool(members) and members in accepted)
            or _is_accepted(first, truth),
            "cause": first["cause"] in truth["accept"]["causes"],
            "line": bool(
                lines_of(first) & (lines | set(() if names else truth["accept"].get("lines_if_no_culprit", ())))
            ),
        }
    return {
        "points": {name: is_right for name, is_right in points.items() if name in truth["asked"]},
        "innocents": innocents,
        "others": max(0, len(errors) - 1),
    }


def _is_accepted(finding: dict[str, Any], truth: dict[str, Any]) -> bool:
    """Whether a finding names processes, and those that an answer may name, whatever rank the order of pids gives."""
    pids = sorted(finding["culprit_pids"])
    return bool(pids) and pids in _accepted_pids(truth["accept"])


def _accepted_pids(accept: dict[str, Any]) -> list[list[int]]:
    """The processes that may be named: the culprits', those of other answers, or a culprit's data worker."""
    found = (accept.get("pids", ()), *accept.get("pids_also", ()), accept.get("worker_pids", ()))
    return [sorted(pids) for pids in found]


def cases_of(folder: Path) -> dict[str, dict[str, Any]]:
    """What is explained, by name: each set, and of a set with parts each of these too.

    A case has its truth, what is accepted (`accept`), the points that its files can tell (`asked`), its folder, and
    whether it is a part alone. What can be told stands in ``tell`` and, of a part alone, in ``tell_PART``; in older
    sets ``only_stacks_can_tell`` names what dumps alone cannot, or, of a set without parts, what its files can tell.
    """
    accepted = json.loads((folder / "accept.json").read_text())
    truths = json.loads((folder / "truth.json").read_text())
    has_parts = any("parts" in truth for truth in truths)
    found: dict[str, dict[str, Any]] = {}
    for truth in truths:
        accept = accepted[truth["dir"]]
        named_points = accept.get("only_stacks_can_tell", ())
        asked = accept.get("tell", POINTS if has_parts else named_points)
        case = {**truth, "accept": accept, "asked": asked, "is_part": False}
        parts = truth.get("parts", {})
        found[truth["dir"]] = {**case, "folder": folder / truth["dir"] / ("both" if parts else "")}
        for part, path in parts.items():
            if part == "both":
                continue
            can_tell = [point for point in POINTS if part != "dumps" or point not in named_points]
            found[f"{truth['dir']}/{part}"] = {
                **case,
                "accept": {**accept, "causes": accept.get(f"{part}_causes", accept.get("causes", ()))},
                "asked": accept.get(f"tell_{part}", can_tell),
                "is_part": True,
                "folder": folder / truth["dir"] / (path if isinstance(path, str) else part),
                "ranks": [*truth["ranks"], *(accept.get("dumps_ranks", ()) if part == "dumps" else ())],
            }
    return found


def copy_programs(names: set[str], into: Path) -> None:
    """Copies the folders that hold the programs of a set, without the marks of their authors.

    On the machine of a job its text is at hand.
    """
    paths = [path for name in names for path in [*SETS.glob(f"*/{name}"), *SETS.glob(f"*/programs/{name}")]]
    # A program of another set may have the same name: its text is none of this set.
    for folder in (each for each, number in Counter(path.parent for path in paths).items() if 2 * number > len(names)):
        for path in folder.glob("*.py"):
            Path(into, path.name).write_text(_MARKER.sub("", path.read_text()))


def run(name: str, truth: dict[str, Any], programs: Path | None) -> dict[str, Any]:
    """One set of artefacts, or a part: what was said, and its score."""
    began, folder = time.monotonic(), truth["folder"]
    code, document = explain(folder, programs)
    keys = ("severity", "code", "kind", "cause", "certainty", "culprit_ranks", "culprit_pids", "site", "message")
    said = [{key: each.get(key) for key in keys} for each in document.get("findings", ())]
    unreadable = {"unreadable": document["unreadable"]} if "unreadable" in document else {}
    return {
        "set": name,
        **({"is_part": True} if truth["is_part"] else {}),
        "is_fault": truth["is_fault"],
        **score(truth, document, ranks_of_pids(folder, truth)),
        "exit_code": code,
        "seconds": round(time.monotonic() - began, 1),
        "said": said,
        **unreadable,
    }


def summary(all_rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all sets; of parts alone, what they told that the whole did not."""
    rows = [row for row in all_rows if not row.get("is_part")]
    whole = {row["set"]: row["points"] for row in rows}
    parts = [(row, whole.get(row["set"].partition("/")[0])) for row in all_rows if row.get("is_part")]
    better = {
        row["set"]: sorted(point for point, is_right in row["points"].items() if is_right and not of_whole[point])
        for row, of_whole in parts
        if of_whole is not None
    }
    faults = [row for row in rows if row["is_fault"]]
    got = Counter(name for row in faults for name, is_right in row["points"].items() if is_right)
    points = sum(sum(row["points"].values()) for row in rows)
    most = sum(len(row["points"]) for row in rows)
    return {
        "sets": len(rows),
        "points": points,
        "of": most,
        "share": round(points / max(most, 1), 3),
        "faults": {"num": len(faults), **{name: got[name] for name in POINTS}},
        "all_right": sum(all(row["points"].values()) and not row["others"] for row in faults),
        "look_alikes": {
            "num": len(rows) - len(faults),
            "quiet": sum(row["points"]["quiet"] for row in rows if not row["is_fault"]),
        },
        "sets_with_innocents": sum(bool(row["innocents"]) for row in all_rows),
        **({"parts": len(parts), "better_alone": {n: told for n, told in better.items() if told}} if parts else {}),
    }


def main() -> int:
    """Exit code 1 when an innocent is named; 2 when the set has had no first contact."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="artefacts_1", help="a folder of tests/unseen")
    parser.add_argument("--details", action="store_true", help="tell of each set what is right")
    parser.add_argument("--without-source", action="store_true", help="as where the program's text is not at hand")
    add_set_options(parser)
    options = parser.parse_args()
    truths = cases_of(SETS / options.set)
    with tempfile.TemporaryDirectory() as programs:
        copy_programs({truth["file"] for truth in truths.values()}, Path(programs))
        total = contact(
            options,
            truths,
            lambda name: run(name, truths[name], None if options.without_source else Path(programs)),
            summary,
            what=f"artefacts of {options.set} under `emberward explain`, against their author's truth",
            measures=MEASURES,
            tell=lambda row: f"{row['points']} {row['innocents']} {row['seconds']} s" if options.details else "",
            name=f"unseen_{options.set}_without_source" if options.without_source else None,
        )
    return 2 if total is None else 1 if total["sets_with_innocents"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""Examines the scripts of an unseen set by ``emberward check --nproc`` and scores what it says against their truth.

    python tools/campaign_unseen.py SET [--first-contact] [NAME ...]

A set is a folder of tests/unseen: scripts and ``truth.json``, written by an author who had seen neither the code nor
its tests, and committed before the first run. With ``--first-contact`` the result goes into
docs/measured/first_contact/SET.json, once and for ever; without, into docs/measured/unseen_SET.json, which says only
that what was found has been fixed.

A wrong script gives four points: verdict, ranks, cause, line; a right one gives one, for no error. A wrong script that
is called proved is a false proof, a right one with an error a false alarm.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from measured import ROOT
from unseen import SETS, add_set_options, answer_of, contact

MEASURES = ["src/emberward/sources/script", "src/emberward/match", "src/emberward/cli/_examine.py"]
LIMIT_S = 300.0


def examine(script: Path, num_ranks: int) -> tuple[int | None, dict[str, Any]]:
    """The exit code and document of the check, run beside the script; (None, {}) when it did not end in LIMIT_S."""
    words = ["check", "--json", "--nproc", str(num_ranks), "--", str(script)]
    with tempfile.TemporaryDirectory() as folder:
        code, document = answer_of(words, folder=folder, limit_s=LIMIT_S)
    return code, json.loads(json.dumps(document, ensure_ascii=False).replace(f"{ROOT}/", ""))


def sites_of(finding: dict[str, Any]) -> set[int]:
    """The lines that the finding names: its own, and those of a cycle's members."""
    sites = [finding.get("site"), *(member.get("site") for member in finding.get("cycle") or ())]
    return {int(site.rpartition(":")[2]) for site in sites if site and site.rpartition(":")[2].isdigit()}


def score(truth: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """What is right of what was said, and what would be a false word."""
    errors = [each for each in document.get("findings", ()) if each["severity"] == "error"]
    proved = bool(document.get("proved"))
    if truth["right"]:
        return {"points": {"verdict": not errors and bool(document)}, "false_alarm": bool(errors), "false_proof": False}
    points = dict.fromkeys(("verdict", "ranks", "cause", "line"), False)
    if errors:
        first = errors[0]
        ranks = [truth["culprit_ranks"], *truth.get("accept_culprits", ())]
        members = sorted({member["rank"] for member in first.get("cycle") or ()})
        in_cycle = bool(truth["cycle_ranks"]) and members == sorted(truth["cycle_ranks"])
        points = {
            "verdict": first["kind"] in (truth["verdict"], *truth.get("accept_verdicts", ())),
            "ranks": sorted(first["culprit_ranks"]) in [sorted(each) for each in ranks] or in_cycle,
            "cause": first["cause"] in (truth["cause"], *truth.get("accept_causes", ())),
            "line": bool(sites_of(first) & set(truth["lines"])),
        }
    return {"points": points, "false_alarm": False, "false_proof": proved and not errors}


def run(script: Path, truth: dict[str, Any]) -> dict[str, Any]:
    """One script: what was said, and its score."""
    began = time.monotonic()
    code, document = examine(script, truth["nproc"])
    said = [
        {key: each.get(key) for key in ("severity", "code", "kind", "cause", "culprit_ranks", "site", "message")}
        for each in document.get("findings", ())
    ]
    kept: dict[str, Any] = {
        key: document.get(key) for key in ("proved", "not_examined", "unreadable") if key in document
    }
    return {
        "script": script.name,
        "right": truth["right"],
        **score(truth, document),
        "exit_code": code,
        "seconds": round(time.monotonic() - began, 1),
        "said": said,
        **kept,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all scripts."""
    got = Counter(name for row in rows for name, is_right in row["points"].items() if is_right and not row["right"])
    of = sum(not row["right"] for row in rows)
    points = sum(sum(row["points"].values()) for row in rows)
    most = sum(len(row["points"]) for row in rows)
    return {
        "scripts": len(rows),
        "points": points,
        "of": most,
        "share": round(points / max(most, 1), 3),
        "wrong_scripts": {"num": of, **{name: got[name] for name in ("verdict", "ranks", "cause", "line")}},
        "right_scripts": {
            "num": len(rows) - of,
            "quiet": sum(row["points"]["verdict"] for row in rows if row["right"]),
            "proved": sum(bool(row.get("proved")) for row in rows if row["right"]),
        },
        "false_alarms": [row["script"] for row in rows if row["false_alarm"]],
        "false_proofs": [row["script"] for row in rows if row["false_proof"]],
    }


def main() -> int:
    """Exit code 1 for a false alarm or a false proof; 2 when the set has had no first contact."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=sorted(path.name for path in SETS.iterdir() if path.is_dir()))
    add_set_options(parser)
    options = parser.parse_args()
    folder = SETS / options.set
    truths = {truth["file"]: truth for truth in json.loads((folder / "truth.json").read_text())}
    total = contact(
        options,
        truths,
        lambda name: run(folder / name, truths[name]),
        summary,
        what=f"scripts of {options.set} under `emberward check --nproc`, against their authors' truth",
        measures=MEASURES,
        tell=lambda row: f"{row['points']} {row['seconds']} s",
    )
    return 2 if total is None else 1 if total["false_alarms"] or total["false_proofs"] else 0


if __name__ == "__main__":
    sys.exit(main())

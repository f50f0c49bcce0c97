"""Examines the simulated machines of an unseen set by ``emberward doctor`` and scores its verdicts against their truth.

    python tools/campaign_probes.py [--set SET] [--first-contact] [--budget S] [WORLD ...]

A set is a folder of tests/unseen: a simulator behind the doctor's probe contract, one file for each simulated machine,
and ``truth.json``, committed before the doctor met it. With ``--first-contact`` the result goes into
docs/measured/first_contact/SET.json, once and for ever; without, into docs/measured/unseen_SET.json.

A machine is *right* when each of its faults has an accepted verdict and no verdict names anything else; a verdict that
names a member that nobody may accuse is a *false accusation*. ``--budget`` bounds the seconds of each examination,
which is less than the truth's own where a machine is to be examined in a minute. A set with a ``score.py`` of its
author's is run and scored by it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from unseen import SETS, add_set_options, answer_of, contact

MEASURES = ["src/emberward/doctor", "src/emberward/cli/_doctor.py"]
AFTER_S = 60.0
"""What an examination may take beyond its budget."""


def members_of(verdict: dict[str, Any]) -> frozenset[str]:
    """Whom a verdict of the doctor names: devices, hosts, or the ends of links."""
    ends = {end for link in verdict.get("links") or () for end in link}
    return frozenset((*(verdict.get("devices") or ()), *(verdict.get("hosts") or ()), *ends))


def accepted_members(accept: dict[str, Any]) -> frozenset[str]:
    """The same of an accepted answer; a switch's groups are lists of hosts."""
    found: set[str] = set()
    for member in accept["members"]:
        found |= {member} if isinstance(member, str) else set(member)
    return frozenset(found)


def fits(verdict: dict[str, Any], accept: dict[str, Any]) -> bool:
    """Whether a verdict is the accepted answer."""
    if accept.get("open"):
        return members_of(verdict) == accepted_members(accept) and verdict.get("certainty") in ("unknown", "inferred")
    if verdict["kind"] != accept["kind"]:
        return False
    if verdict["kind"] == "switch":
        return {end.split(":")[0] for end in members_of(verdict)} == accepted_members(accept)
    return members_of(verdict) == accepted_members(accept)


def score(truth: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """What is right of the verdicts."""
    verdicts = document.get("verdicts", [])
    left = list(verdicts)
    missed = []
    for fault in truth["verdicts"]:
        found = next((each for each in left if any(fits(each, accept) for accept in fault["accept"])), None)
        if found is None:
            missed.append(fault["members"])
        else:
            left.remove(found)
    accused = {name for each in left if each["kind"] in ("device", "host") for name in members_of(each)}
    return {
        "is_right": bool(document) and not missed and not left,
        "missed": missed,
        "others": left,
        "false_accusations": sorted(accused & set(truth["never_accuse"])),
    }


def run(folder: Path, truths: dict[str, Any], most_s: float, name: str) -> dict[str, Any]:
    """One machine: what was said, and its score."""
    truth = truths[name]
    budget_s = min(most_s, truth["budget_s"])
    probe = f"sim={sys.executable} {folder / 'sim.py'} {folder / 'worlds' / name}.json"
    words = ["doctor", "--json", "--probe-only", "--launcher", "local"]
    words += ["--probe", probe, "--hosts", ",".join(truth["hosts"]), "--budget", str(budget_s)]
    words += ["--devices-per-host", str(truth["devices_per_host"]), "--probe-limit", str(truth["probe_limit_s"])]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as here:
        _, document = answer_of(words, folder=here, limit_s=budget_s + AFTER_S)
    return {
        "machine": name,
        "is_healthy": truth["healthy"],
        "seconds": round(time.monotonic() - began, 1),
        "num_tests": len(document.get("tests", ())),
        "num_rounds": max((test["round"] for test in document.get("tests", ())), default=0),
        "tests_needed": truth["tests_needed"],
        "verdicts": document.get("verdicts"),
        "open": document.get("open"),
        **({} if "unreadable" not in document else {"unreadable": document["unreadable"]}),
        **score(truth, {} if "unreadable" in document else document),
    }


def run_by_its_own(folder: Path, name: str) -> dict[str, Any]:
    """One machine of a set whose author wrote what runs and scores it, ``score.py``."""
    with tempfile.TemporaryDirectory() as here:
        out = Path(here) / "results.json"
        words = [sys.executable, str(folder / "score.py"), f"{sys.executable} -m emberward", "--worlds", name]
        subprocess.run([*words, "--out", str(out)], check=False, stdout=subprocess.DEVNULL)
        rows = json.loads(out.read_text())["worlds"]
    (row,) = rows.values() if isinstance(rows, dict) else rows
    # The words of probes_2, of probes_3 and of probes_4; sound machines of the later two are told by their names.
    wrong = next(row[word] for word in ("wrong", "not_accepted", "wrongly_named") if word in row)
    return {
        "machine": name,
        "is_healthy": row.get("sound", name.startswith("s")),
        "seconds": row["seconds"],
        "num_starts": row["starts"] if "starts" in row else row["member_starts"],
        "verdicts": row["verdicts"],
        "is_right": row["right"],
        "missed": row["missed"],
        "others": wrong,
        "false_accusations": wrong,
        **({"problem": row["problem"]} if "problem" in row else {}),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all machines."""
    return {
        "machines": len(rows),
        "faulty_right": sum(row["is_right"] for row in rows if not row["is_healthy"]),
        "faulty": sum(not row["is_healthy"] for row in rows),
        "healthy_right": sum(row["is_right"] for row in rows if row["is_healthy"]),
        "healthy": sum(row["is_healthy"] for row in rows),
        "machines_with_false_accusations": sum(bool(row["false_accusations"]) for row in rows),
    }


def main() -> int:
    """Exit code 1 when somebody was accused falsely; 2 when the set has had no first contact."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="probes_1", help="a folder of tests/unseen")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of each examination")
    add_set_options(parser)
    options = parser.parse_args()
    folder = SETS / options.set
    one: Callable[[str], dict[str, Any]]
    if (folder / "score.py").exists():
        names = [path.stem for path in (folder / "worlds").glob("*.json")]
        one = partial(run_by_its_own, folder)
    else:
        truths = json.loads((folder / "truth.json").read_text())
        names = list(truths)
        one = partial(run, folder, truths, options.budget)

    total = contact(
        options,
        names,
        one,
        summary,
        what=f"simulated machines of {options.set} under `emberward doctor`, at most {options.budget:.0f} s each",
        measures=MEASURES,
        tell=lambda row: f"{'right' if row['is_right'] else 'WRONG'} {row['seconds']} s",
    )
    return 2 if total is None else 1 if total["machines_with_false_accusations"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""Keeps what campaigns and benchmarks measured in docs/measured/NAME.json: attempts, origin, whether it still holds.

    python tools/measured.py            writes docs/measured/README.md, which says of each file whether it is current,
                                        and the table of docs/explain.md that says what a certainty was worth

[Note: results]
A campaign or benchmark opens its `Results` and adds one attempt after the other. Each is written at once, with its
time, commit and machine load, and none is ever removed: a case that failed and then passed has two attempts, and the
summary says so. A round ends when a fresh one begins; then its summary and origin move to ``earlier`` and its attempts
are left to git's history. A round is resumed only on the code at which it began.

What a file says is current while the code it measures, the paths in ``measures``, is what it was. A digest of those
files decides, so that no history is needed. `tests/house/test_measured.py` fails while README.md calls a result current
whose code has changed since.
"""

import argparse
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from first_contacts import tables

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "docs" / "measured"
FIRST_CONTACT = MEASURED / "first_contact"
SCHEMA = 1
PACKAGES = ("torch", "numpy", "transformers", "accelerate", "lightning", "deepspeed", "megatron-core")
CALIBRATION = "<!-- written by tools/measured.py -->"
MARK = "| file | what | measured | state |"


class ResultsError(Exception):
    """A result that would overwrite or mix what must be kept."""


def code_digest(measures: Iterable[str], root: Path = ROOT) -> str:
    """SHA-256 over names and bytes of every Python file at or below the paths `measures`, relative to `root`.

    Raises ResultsError for a path that is not there: a result must not be current because its code is gone.
    """
    digest = hashlib.sha256()
    for name in sorted(measures):
        path = root / name
        if not path.exists():
            raise ResultsError(f"{name} is not in {root}: correct the paths in `measures`")
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            digest.update(f"{file.relative_to(root).as_posix()}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def commit_of(root: Path = ROOT) -> str | None:
    """The commit that is checked out, with ``+`` when files differ from it; None outside a checkout."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    if head.returncode != 0:
        return None
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=root, capture_output=True, check=False)
    return head.stdout.strip() + ("+" if changed.returncode != 0 else "")


def origin(measures: Iterable[str], settings: Mapping[str, Any], root: Path = ROOT) -> dict[str, Any]:
    """Where a round comes from: time, commit, digest of the measured code, settings, machine and versions."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "began": now(),
        "commit": commit_of(root),
        "code": code_digest(measures, root),
        "settings": dict(settings),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "memory_gb": memory_gb()},
        "versions": versions,
    }


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def processor() -> str:
    """The processor's name, as Linux tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def memory_gb() -> int:
    """Memory of this machine in GB (1e9 bytes)."""
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what every campaign and benchmark takes: ``--fresh`` and ``--into``."""
    parser.add_argument(
        "--fresh", action="store_true", help="begin a new round; else the last one goes on where it can"
    )
    parser.add_argument("--into", type=Path, default=MEASURED, help="the folder of the results")


class Results:
    """The attempts of one campaign or benchmark. See [Note: results]."""

    def __init__(
        self,
        name: str,
        *,
        what: str,
        measures: Iterable[str],
        settings: Mapping[str, Any] | None = None,
        is_fresh: bool = False,
        folder: Path | None = None,
        root: Path = ROOT,
    ) -> None:
        """Opens `name`.json in `folder` (docs/measured of `root`): the round in it goes on, or a new one begins.

        A new one begins when the file does not exist or is of an older form, when `is_fresh`, or when the measured code
        or the `settings` (seeds among them) have changed since.
        """
        self._root = root
        self._path = (folder or root / "docs" / "measured") / f"{name}.json"
        here = origin(measures, settings or {}, root)
        old = read(self._path)
        earlier = [] if old is None else list(old["earlier"])
        same = old is not None and (old["round"]["code"], old["round"]["settings"]) == (here["code"], here["settings"])
        self._value: dict[str, Any]
        if old is not None and same and not is_fresh:
            self._value = old
            return
        if old is not None:
            earlier.append({**old["round"], "num_attempts": len(old["attempts"]), "summary": old["summary"]})
        self._value = {
            "schema": SCHEMA,
            "name": name,
            "what": what,
            "measures": sorted(measures),
            "round": here,
            "summary": {},
            "attempts": [],
            "earlier": earlier,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """What the round was begun with."""
        return dict(self._value["round"]["settings"])

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """All attempts of this round, oldest first."""
        return list(self._value["attempts"])

    def has(self, key: str) -> bool:
        """Whether this round has an attempt of the case `key`, however it ended."""
        return any(each["key"] == key for each in self._value["attempts"])

    def latest(self) -> dict[str, dict[str, Any]]:
        """The last attempt of each case."""
        return {each["key"]: each for each in self._value["attempts"]}

    def add(self, key: str, row: Mapping[str, Any]) -> None:
        """Keeps one attempt of the case `key` and writes the file."""
        load = round(os.getloadavg()[0], 1)
        self._value["attempts"].append({"key": key, "at": now(), "commit": commit_of(self._root), "load": load, **row})
        self._write()

    def summarise(self, summary: Mapping[str, Any]) -> None:
        """Replaces and prints the round's summary, beside which stands how many cases needed more than one attempt."""
        counts = Counter(each["key"] for each in self._value["attempts"])
        again = {key: count for key, count in counts.items() if count > 1}
        self._value["summary"] = {
            "num_attempts": sum(counts.values()),
            "num_cases": len(counts),
            "again": again,
            **summary,
        }
        self._write()
        sys.stdout.write(json.dumps(self._value["summary"], indent=1) + "\n")

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".part")
        temporary.write_text(json.dumps(self._value, indent=1) + "\n", encoding="utf-8")
        temporary.replace(self._path)


def read(path: Path) -> dict[str, Any] | None:
    """A file of results; None when there is none, or one from before this form existed."""
    if not path.exists():
        return None
    value = json.loads(path.read_text(encoding="utf-8"))
    return value if isinstance(value, dict) and value.get("schema") == SCHEMA else None


def keep_first_contact(
    name: str, *, what: str, measures: Iterable[str], rows: list[dict[str, Any]], root: Path = ROOT
) -> Path:
    """Writes what the code under test said of a set that it had never met: docs/measured/first_contact/`name`.json.

    Raises ResultsError when the file is there: a first contact happens once.
    """
    path = root / "docs" / "measured" / "first_contact" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    value = {"schema": SCHEMA, "name": name, "what": what, "round": origin(measures, {}, root), "rows": rows}
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(value, indent=1) + "\n")
    except FileExistsError as error:
        raise ResultsError(f"{path} holds the first contact of this set already: that is kept for ever") from error
    return path


def state_of(value: Mapping[str, Any] | None, root: Path = ROOT) -> str:
    """``current``, or why a file of results is stale."""
    if value is None:
        return "stale: from before origins were kept"
    if value["round"]["code"] != code_digest(value["measures"], root):
        return "stale: the code it measures has changed"
    return "current"


def table() -> str:
    """The page that lists every file of results with its origin and state."""
    lines = [
        "# Measured",
        "",
        "What campaigns (`make campaign`) and benchmarks measured. A result is *current* while the code it measures is",
        "the code that it measured; a figure in another page that names a stale file is as old as that file.",
        "`python tools/measured.py` writes this page.",
        "",
        MARK,
        "|---|---|---|---|",
    ]
    for path in sorted(MEASURED.glob("*.json")):
        value = read(path)
        when = "" if value is None else f"{value['round']['began'][:10]}, {(value['round']['commit'] or '?')[:10]}"
        what = "" if value is None else value["what"].replace("|", "/")
        lines.append(f"| [{path.name}]({path.name}) | {what} | {when} | {state_of(value)} |")
    lines += [
        "",
        "## First contact",
        "",
        "What the code said of sets of programs or files that it had never met, written once and never again. Their",
        "authors had seen neither the code nor its tests. What each set is: tests/unseen/README.md.",
    ]
    lines += tables(FIRST_CONTACT)
    return "\n".join(lines) + "\n"


def calibration() -> str:
    """How often errors of each certainty named the right ranks, over all first contacts whose findings tell it.

    Of a program or set of files the first error counts, where it names ranks or processes and these were asked for.
    """
    named: Counter[tuple[str, str]] = Counter()
    for path in sorted(FIRST_CONTACT.glob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            said = [
                each for each in row.get("said") or () if isinstance(each, dict) and each.get("severity") == "error"
            ]
            if not said or "certainty" not in said[0] or not (said[0]["culprit_ranks"] or said[0].get("culprit_pids")):
                continue
            certainty, is_asked = said[0]["certainty"], not row["is_fault"] or "ranks" in row["points"]
            named[certainty, "errors"] += is_asked
            named[certainty, "right"] += bool(row["points"].get("ranks"))
            named[certainty, "innocent"] += bool(row["innocents"])
    lines = [
        "| certainty | first errors that name somebody | the right ranks | an innocent among them |",
        "|---|---|---|---|",
    ]
    for certainty in ("observed", "inferred", "unknown"):
        errors, right = named[certainty, "errors"], named[certainty, "right"]
        share = f" ({100 * right / errors:.0f}%)" if errors else ""
        lines.append(f"| `{certainty}` | {errors} | {right}{share} | {named[certainty, 'innocent']} |")
    return "\n".join(lines)


def explained() -> str:
    """docs/explain.md with the table of `calibration` of today."""
    text = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(CALIBRATION)
    _, _, after = rest.partition(CALIBRATION)
    return f"{before}{CALIBRATION}\n{calibration()}\n{CALIBRATION}{after}"


def main() -> int:
    """Writes docs/measured/README.md and the table in docs/explain.md."""
    (MEASURED / "README.md").write_text(table(), encoding="utf-8")
    (ROOT / "docs" / "explain.md").write_text(explained(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

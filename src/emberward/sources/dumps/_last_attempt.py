"""Which part of a run's folder is of its last attempt: what an earlier one left there is another incident's."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

MAX_DIARY_BYTES = 64 << 20


def left_before(folder: Path) -> dict[str, int | None]:
    """What lay in a run's folder before its last attempt began, as that attempt's start line tells: of a file that it
    goes on with its bytes, of a folder None. {} where nothing tells. Never raises."""
    try:
        with (folder / "attempts.jsonl").open("rb") as file:
            lines = file.read(MAX_DIARY_BYTES).splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            values = json.loads(line)
            if values["event"] == "start":
                known = values.get("before") or {}
                return {path: size for path, size in known.items() if size is None or type(size) is int}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return {}


def of_last_attempt(files: Iterable[Path], folder: Path, before: Mapping[str, int | None]) -> dict[Path, int]:
    """The files of the last attempt, each with the byte at which its part begins."""
    kept = {}
    for path in files:
        inside = path.relative_to(folder)
        # What the hosts' supervisors found is told again, with what was made of it, in the run's own findings.
        is_told = inside.match("hosts/*/*/findings.jsonl") and (folder / "attempts.jsonl").exists()
        if not is_told and not any(str(above) in before for above in inside.parents):
            kept[path] = before.get(str(inside)) or 0
    return kept

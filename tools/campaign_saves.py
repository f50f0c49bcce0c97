"""Kills the process that writes saves, and its rank, at each operation of a save, in real processes.

    python tools/campaign_saves.py [--output docs/measured/saves.json]

Two ranks save beside (threads of this process, each with its writer); rank 0's writer, then rank 1's, is killed by
SIGKILL before, within and after its n-th operation, for n = 1, 2, ... until a save passes. Then a rank that is a
process of its own is killed by its writer at each operation. After each: the save that a resume would take verifies
and is bit-equal, it is the new one or the one before, and the next save passes and leaves no trace. Raises at the
first that is not so.
"""

import argparse
import importlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from emberward.checkpoint import clean_leftovers

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))
child, storages, faults, processes = (
    importlib.import_module(f"unit.checkpoint.{name}")
    for name in ("checkpoint_child", "checkpoint_storages", "test_checkpoint_faults", "test_checkpoint_processes")
)
KILLS = ("kill before", "kill within", "kill after")


def kill_writers(folder: Path, culprit: int, fault: str) -> Counter[str]:
    """What a resume found after each kill."""
    shelf = processes.Shelf(folder, culprit)
    shelf.require_next()
    outcomes = Counter[str]()
    for at in itertools.count(1):
        shelf.plan.set(storages.Fault(fault), at)
        written = shelf.save()
        if not shelf.plan.was_hit:
            break
        own = written[culprit]
        found = faults.require_whole(shelf.path)
        assert found == shelf.step or (found == shelf.step - 1 and own.error is not None), (at, written)
        codes = [own.error.code] if own.error is not None else [notice.code for notice in own.saved.notices]
        assert codes == ["K108"], (at, own)
        outcomes["new" if found == shelf.step else "before"] += 1
        shelf.require_next()
    shelf.crew.close()
    return outcomes


def kill_ranks(folder: Path) -> Counter[str]:
    """The same for ranks; each writer has gone with its rank, or the program below would wait for it for ever."""
    child.save_once(folder / "before", 10, 1)
    command = [sys.executable, "-m", "unit.checkpoint.beside_rank", str(folder), "1"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    statuses = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True, timeout=600).stdout)
    outcomes = Counter[str]()
    shelves = sorted(folder.glob("[0-9]*"), key=lambda path: int(path.name))
    for shelf in shelves[: len(statuses)]:
        outcomes["new" if child.require_parts(shelf) == 2 else "before"] += 1
        clean_leftovers(shelf)
        child.save_once(shelf, 30, 3)
        assert child.require_parts(shelf) == 3
        assert sorted(p.name for p in shelf.iterdir()) == [".lock", "latest", "step-00000030"]
    return outcomes


def main() -> None:
    """Writes what was found to the output and to standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args()
    found: dict[str, dict[str, int]] = {}
    for culprit, fault in itertools.product((0, 1), KILLS):
        with tempfile.TemporaryDirectory() as name:
            found[f"writer of rank {culprit}, {fault}"] = dict(kill_writers(Path(name), culprit, fault))
    with tempfile.TemporaryDirectory() as name:
        found["rank"] = dict(kill_ranks(Path(name)))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    kills = sum(sum(outcomes.values()) for outcomes in found.values())
    result = {"what": "what a resume found after each SIGKILL", "kills": kills, "lost": 0, "found": found}
    text = json.dumps({**result, "commit": commit}, indent=2) + "\n"
    sys.stdout.write(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

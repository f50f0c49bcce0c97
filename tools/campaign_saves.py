"""Kills the process that writes saves, and its rank, at each operation of a save, in real processes.

    python tools/campaign_saves.py

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
from collections.abc import Callable
from pathlib import Path

from measured import Results, add_options

from emberward.checkpoint import clean_leftovers
from emberward.findings import EmberwardError

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))
child, storages, faults, processes = (
    importlib.import_module(f"unit.checkpoint.{name}")
    for name in ("checkpoint_child", "checkpoint_storages", "test_checkpoint_faults", "test_checkpoint_processes")
)
KILLS = ("kill before", "kill within", "kill after")


def whole_step(read: Callable[[], int]) -> int | None:
    """What `read` found whole; None when it found nothing that is: a lost save."""
    try:
        return read()
    except (AssertionError, EmberwardError) as error:
        sys.stderr.write(f"lost: {error}\n")
        return None


def kill_writers(folder: Path, culprit: int, fault: str) -> Counter[str]:
    """What a resume found after each kill."""
    root = processes.Root(folder, culprit)
    root.require_next()
    outcomes = Counter[str]()
    for at in itertools.count(1):
        root.plan.set(storages.Fault(fault), at)
        written = root.save()
        if not root.plan.was_hit:
            break
        own = written[culprit]
        found = whole_step(lambda: faults.require_whole(root.path))
        if found != root.step and not (found == root.step - 1 and own.error is not None):
            outcomes["lost"] += 1
            break
        codes = [own.error.code] if own.error is not None else [notice.code for notice in own.saved.notices]
        assert codes == ["K108"], (at, own)
        outcomes["new" if found == root.step else "before"] += 1
        root.require_next()
    root.crew.close()
    return outcomes


def kill_ranks(folder: Path) -> Counter[str]:
    """The same for ranks; each writer has gone with its rank, or the program below would wait for it for ever."""
    child.save_once(folder / "before", 10, 1)
    command = [sys.executable, "-m", "unit.checkpoint.beside_rank", str(folder), "1"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    statuses = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True, timeout=600).stdout)
    outcomes = Counter[str]()
    roots = sorted(folder.glob("[0-9]*"), key=lambda path: int(path.name))
    for root in roots[: len(statuses)]:
        found = whole_step(lambda root=root: child.require_parts(root))  # type: ignore[misc]
        outcomes["lost" if found is None else "new" if found == 2 else "before"] += 1
        if found is None:
            continue
        clean_leftovers(root)
        child.save_once(root, 30, 3)
        assert child.require_parts(root) == 3
        assert sorted(p.name for p in root.iterdir()) == [".lock", "latest", "step-00000030"]
    return outcomes


def main() -> int:
    """Exit code 1 when a kill lost the save before it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "saves",
        what="what a resume found after each SIGKILL of a writer, or of a rank, at each operation of a save",
        measures=["src/emberward/checkpoint"],
        is_fresh=options.fresh,
        folder=options.into,
    )
    cases = {f"writer of rank {culprit}, {fault}": (culprit, fault) for culprit in (0, 1) for fault in KILLS}
    for case, (culprit, fault) in cases.items():
        if not results.has(case):
            with tempfile.TemporaryDirectory() as name:
                results.add(case, {"found": dict(kill_writers(Path(name), culprit, fault))})
    if not results.has("rank"):
        with tempfile.TemporaryDirectory() as name:
            results.add("rank", {"found": dict(kill_ranks(Path(name)))})
    outcomes = Counter[str]()
    for row in results.attempts:
        outcomes.update(row["found"])
    results.summarise({"kills": outcomes.total(), "lost": outcomes["lost"], "found": dict(outcomes)})
    return 1 if outcomes["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())

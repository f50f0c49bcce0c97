"""A sample of the held-out programs on real ranks; `tools/campaign_held_out.py` has all of them, under `emberward run`.

The ranks are forked from a process that has torch, and when one ends with an error the others are ended, as a launcher
does. What is said is judged by the campaign's own rules.
"""

import contextlib
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from campaign_held_out import Watched, is_enough, judged
from ports import reserve_port
from warm import WarmProcess, WarmServer

from emberward.sources.attach import RING_VARIABLE
from emberward.sources.live import Watcher
from emberward.sources.ring import new_ring_folder, remove_ring_folder
from ranks.hangs.driver import warm_ranks
from ranks.held_out_truth import PROGRAMS, truth_of

STRIDE = 10
"""Of the programs of each kind, by name."""
NAMES = [
    f"{kind}/{path.stem}" for kind in ("faults", "healthy") for path in sorted((PROGRAMS / kind).glob("*.py"))[::STRIDE]
]
AT_ONCE = 3
AFTERMATH_S, END_S = 5.0, 60.0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[dict[str, Future]]:
    """What was said of each program that is asked for, and its output; several run at once."""
    asked = (item for item in request.session.items if item.nodeid.startswith(request.node.nodeid))
    chosen = {item.callspec.params["name"] for item in asked if "runs" in item.fixturenames}
    server, folder = warm_ranks(), tmp_path_factory.mktemp("held_out")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(run, name, folder / name, server) for name in NAMES if name in chosen}


def run(name: str, folder: Path, server: WarmServer) -> tuple[Watched, str]:
    """Runs the program to its end, or to that which we make when the verdict stands or is late."""
    program, rings = PROGRAMS / f"{name}.py", new_ring_folder("test-held-out")
    truth = truth_of(program)
    folder.mkdir(parents=True)
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(reserve_port()),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(folder),
        RING_VARIABLE: str(rings),
        "WORLD_SIZE": str(truth.num_ranks),
        "LOCAL_WORLD_SIZE": str(truth.num_ranks),
    }
    output = folder / "output"
    with output.open("ab") as out:
        ranks = [
            server.start(
                [str(program)], cwd=folder, stdout=out, stderr=out,
                env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(truth.num_ranks)
        ]  # fmt: skip
    try:
        with contextlib.closing(Watcher(rings)) as watcher:
            return watch(truth, ranks, watcher, output), output.read_text(errors="replace")[-3000:]
    finally:
        for each in ranks:
            each.kill()
            with contextlib.suppress(Exception):
                each.wait(END_S)
        remove_ring_folder(rings)


def ended(ranks: list[WarmProcess]) -> dict[int, int]:
    """The exit codes by pid, after those that fail because another did had a moment, and the rest was ended."""
    end_s = time.monotonic() + AFTERMATH_S
    while time.monotonic() < end_s and any(each.poll() is None for each in ranks):
        time.sleep(0.1)
    for each in ranks:
        each.terminate()
    return {each.pid: each.wait(END_S) for each in ranks}


def watch(truth, ranks: list[WarmProcess], watcher: Watcher, output: Path) -> Watched:
    """What the watcher says until it is enough."""
    watched, began_s = Watched(said=[]), time.monotonic()
    while True:
        exits = {each.pid: code for each in ranks if (code := each.poll()) is not None}
        if any(exits.values()):
            exits = ended(ranks)
        is_over = len(exits) == len(ranks)
        report = watcher.end(exits) if is_over else watcher.poll(exits)
        watched.said += [(time.time(), finding.to_json()) for finding in report.findings]
        freeze = re.search(r"FREEZE ([\d.]+)", output.read_text(errors="replace"))
        watched.froze_unix = float(freeze[1]) if freeze else None
        if is_over:
            watched.exit_code = max(map(abs, exits.values()))
            return watched
        has_error = not truth.is_healthy and any(finding["severity"] == "error" for _, finding in watched.said)
        if has_error or is_enough(truth, watched, time.monotonic() - began_s):
            return watched
        time.sleep(1.0)


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_of_a_program_that_was_held_out_all_is_right(runs: dict[str, Future], name: str) -> None:
    watched, output = runs[name].result()
    truth = truth_of(PROGRAMS / f"{name}.py")
    assert judged(truth, watched) == [], json.dumps([watched.said, output], indent=1)


def test_a_wrong_word_would_be_seen() -> None:
    program = PROGRAMS / f"{NAMES[0]}.py"
    assert judged(truth_of(program), Watched(said=[], exit_code=1)) == ["not named"]

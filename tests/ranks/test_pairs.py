"""Real jobs of two ranks, where no majority tells who is odd, and ends whose echo looks like the cause."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from emberward.findings import Severity
from emberward.sources.attach import attach_environment
from emberward.sources.ring import MarkKind, find_rings, read_ring
from ranks.hangs.driver import HangJob, Nursery, Watched, is_right, watch
from ranks.hangs.truth import Truth

TRUTHS = {
    truth.name: truth
    for truth in (
        Truth("one_norm", "pairs", "missing", (0,), "extra_collective", "# only on rank 0", world=2, ends=True),
        Truth("other_tag", "pairs", "mismatch", (), "unmatched_p2p", world=2),
        Truth("leaves_early", "pairs", "crash", (1,), "main_exited", world=2, ends=True),
    )
}
CHILD_RAISES = Path(__file__).parent / "strangers" / "child_raises.py"
ALIKE = "both_in_a_transfer"
VERDICT_LIMIT_S = 60.0
RAISED_LIMIT_S = 120.0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Watched]]]:
    nursery, folder = Nursery(), tmp_path_factory.mktemp("pairs")

    def run(name: str) -> Watched:
        with HangJob("pairs", name, folder / name, world=2, nursery=nursery) as job:
            seen = watch(job, until=Severity.ERROR, limit_s=VERDICT_LIMIT_S)
            seen.is_finished, seen.log = job.has_left(), job.logs()
        return seen

    with ThreadPoolExecutor(4) as pool:
        yield {name: pool.submit(run, name) for name in (*TRUTHS, ALIKE)}
    nursery.close()


@pytest.mark.parametrize("name", TRUTHS)
def test_of_two_ranks_the_odd_one_is_named(runs: dict[str, Future[Watched]], name: str) -> None:
    seen, truth = runs[name].result(), TRUTHS[name]
    assert seen.errors, seen.log
    finding = seen.errors[-1]
    assert is_right(finding, truth) == dict.fromkeys(("kind", "ranks", "cause", "line"), True), finding


def test_a_message_that_comes_late_is_no_alarm(runs: dict[str, Future[Watched]]) -> None:
    seen = runs[ALIKE].result()
    assert seen.is_finished, seen.log
    assert [f for _, f in seen.said if f.severity is not Severity.NOTICE] == []


def test_an_exception_in_a_child_of_multiprocessing_stands_in_its_ring(tmp_path: Path) -> None:
    rings = tmp_path / "rings"
    rings.mkdir()
    environment = attach_environment({"OMP_NUM_THREADS": "1", "RANK": "0"}, ring_folder=rings)
    command = [sys.executable, str(CHILD_RAISES), str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=RAISED_LIMIT_S)
    assert ended.returncode == 1, ended.stderr
    assert b"KeyError: 'rate'" in ended.stderr
    (view,) = map(read_ring, find_rings(rings))
    raised = [mark for mark in view.marks if mark.kind is MarkKind.EXCEPTION]
    assert [mark.name for mark in raised] == ["KeyError: 'rate'"]
    line = next(n for n, text in enumerate(CHILD_RAISES.read_text().splitlines(), 1) if "# raised" in text)
    assert raised[0].site is not None
    assert (Path(raised[0].site.file).name, raised[0].site.line) == (CHILD_RAISES.name, line)

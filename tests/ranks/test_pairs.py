"""Real jobs of two ranks, where no majority tells who is odd."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from emberward.findings import Severity
from ranks.hangs.driver import HangJob, Watched, is_right, warm_ranks, watch
from ranks.hangs.truth import Truth

TRUTHS = {
    truth.name: truth
    for truth in (
        Truth("one_norm", "pairs", "mismatch", (0,), "extra_collective", "# only on rank 0", world=2, ends=True),
        Truth("other_tag", "pairs", "mismatch", (1,), "unmatched_p2p", "dist.recv(x, src=0, tag=tag)", world=2),
    )
}
ALIKE = "both_in_a_transfer"
VERDICT_LIMIT_S = 60.0


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Watched]]]:
    server, folder = warm_ranks(), tmp_path_factory.mktemp("pairs")

    def run(name: str) -> Watched:
        with HangJob("pairs", name, folder / name, world=2, server=server) as job:
            seen = watch(job, until=Severity.ERROR, limit_s=VERDICT_LIMIT_S)
            seen.is_finished, seen.log = job.has_left(), job.logs()
        return seen

    asked = (item for item in request.session.items if item.path == request.path)
    chosen = [item.callspec.params["name"] for item in asked if hasattr(item, "callspec")]
    with ThreadPoolExecutor(4) as pool:
        yield {name: pool.submit(run, name) for name in (*chosen, ALIKE)}


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

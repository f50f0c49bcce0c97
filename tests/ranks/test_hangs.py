"""Real programs on real ranks: who stopped them, why, at which line; and those that are slow and alive."""

import random
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from emberward.diagnose.live import Snapshot
from emberward.findings import CATALOGUE, Severity
from emberward.sources import cpu_nccl
from emberward.sources.dumps import source_lines
from emberward.sources.live import explain_pids
from ranks.hangs.driver import HOME, HangJob, Watched, is_right, warm_ranks, watch
from ranks.hangs.truth import ALIVE, TRUTHS

NAMES = (
    "uneven_data", "skipped_collective", "dtype", "cycle_p2p", "dataloader_worker", "stopped", "killed", "lock",
    "thread_died", "sleep", "slow_loader", "slow_periodic", "version_skew", "device_stall", "segfault", "no_end",
    "forgotten_thread", "became_slow",
)  # fmt: skip
"""Of slow ones those that the noise of other tests does not hide: 5% of a step is left to tools/campaign_hangs.py."""
ON_DEVICE = (
    "skipped_collective", "uneven_data", "different_op", "version_skew", "slow_rank", "dataloader_worker",
    "different_root", "dtype", "extra_collective", "lock", "missing_group", "killed", "exception", "thread_died",
    "cpu_loop", "sleep", "store_wait", "stopped", "pipeline_stage", "slow_periodic", "unmatched_p2p", "device_stall",
    "ddp_lock", "fsdp_lock", "shape", "mesh_lock",
)  # fmt: skip
"""Programs that also stop where a wait does not block. Not so the others: without a wait of the host two orders of two
groups, or of a send and a receive, meet after all, and a call that was left out only shifts those after it. At odd
places stand those of NAMES and two that are like ddp_lock: see SELDOM of tests/sample.py."""
ALIKE_ON_DEVICE = ("slow_but_alive", "long_evaluation", "slow_lock", "late_transfer", "wandering")
ASKED = "lock"
"""The program whose processes are explained too, as if no recorder ran in them."""
LOOK_ALIKES = (
    "slow_first_step", "long_evaluation", "long_save", "slow_but_alive", "slow_lock", "slow_worker", "late_transfer",
    "wandering", "last_upload", "last_native",
)  # fmt: skip
"""Longer ones, of 10 to 60 seconds, run in tools/campaign_hangs.py."""
TWO_CHECKS_S = 14.0
"""What a look-alike of a straggler needs, so that it was judged twice."""
MAX_AT_ONCE = 4
VERDICT_LIMIT_S = 60.0
SEED = random.SystemRandom().randrange(1 << 30)


class Campaign:
    """Runs each program once, several at a time, from the first moment that one is asked for."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self._folder = folder
        self._server = warm_ranks()
        self._pool = ThreadPoolExecutor(MAX_AT_ONCE)
        self._seconds = random.Random(SEED)
        lengths = {name: self._seconds.uniform(7, 10) for name in LOOK_ALIKES} | {"wandering": TWO_CHECKS_S}
        lengths |= {f"{name}@{cpu_nccl.NAME}": length for name, length in lengths.items()}
        self._runs: dict[str, Future[Watched]] = {
            name: self._pool.submit(self._run, name, lengths.get(name, 0.0)) for name in names
        }

    def _run(self, key: str, seconds: float) -> Watched:
        name, _, backend = key.partition("@")
        truth = TRUTHS.get(name)
        family, world = ("alive", 4) if truth is None else (truth.family, truth.world)
        is_sure = truth is None or truth.is_sure
        job = HangJob(
            family,
            name,
            self._folder / key,
            world=world,
            seconds=seconds,
            server=self._server,
            backend=backend or "gloo",
        )
        with job:
            seen = watch(job, until=Severity.ERROR if is_sure else Severity.NOTICE, limit_s=VERDICT_LIMIT_S)
            seen.is_finished, seen.log = job.has_left(), job.logs()
            if key == ASKED:
                seen.pids, seen.asked = list(job.pids), explain_pids(job.pids, line_of=source_lines([HOME]))
        return seen

    def of(self, name: str) -> Watched:
        """What was said of a program; of ``NAME@BACKEND`` where it is not gloo."""
        return self._runs[name].result()

    def close(self) -> None:
        """Ends what is left."""
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def campaign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    chosen = {item.callspec.params["name"] for item in request.session.items if "campaign" in item.fixturenames}
    found = Campaign(tmp_path_factory.mktemp("hangs"), sorted(chosen))
    yield found
    found.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_hang_is_named_with_its_cause_and_line(campaign: Campaign, name: str) -> None:
    truth = TRUTHS[name]
    seen = campaign.of(name)
    assert seen.said, seen.log
    _, finding = seen.said[-1]
    assert is_right(finding, truth) == dict.fromkeys(("kind", "ranks", "cause", "line"), True), finding
    assert finding.severity is Severity(truth.severity)
    assert finding.code in CATALOGUE
    assert finding.next
    if truth.is_sure:
        assert seen.errors == [finding], "one fault is one error"


@pytest.mark.parametrize("name", [f"{name}@{cpu_nccl.NAME}" for name in ON_DEVICE])
def test_the_verdict_is_the_same_where_a_wait_does_not_block(campaign: Campaign, name: str) -> None:
    truth, seen = TRUTHS[name.partition("@")[0]], campaign.of(name)
    assert seen.said, seen.log
    _, finding = seen.said[-1]
    assert is_right(finding, truth) == dict.fromkeys(("kind", "ranks", "cause", "line"), True), finding
    if truth.is_sure:
        assert seen.errors == [finding], "one fault is one error"


@pytest.mark.parametrize("name", [f"{name}@{cpu_nccl.NAME}" for name in ALIKE_ON_DEVICE])
def test_a_slow_job_is_no_alarm_where_a_wait_does_not_block(campaign: Campaign, name: str) -> None:
    test_a_slow_job_is_no_alarm(campaign, name)


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_slow_job_is_no_alarm(campaign: Campaign, name: str) -> None:
    seen = campaign.of(name)
    assert seen.is_finished, f"seed {SEED}\n{seen.log}"
    assert [f for _, f in seen.said if f.severity is not Severity.NOTICE] == [], f"seed {SEED}"
    assert name.partition("@")[0] in ALIVE


@pytest.mark.parametrize("name", [ASKED])
def test_the_processes_alone_tell_the_same(campaign: Campaign, name: str) -> None:
    seen = campaign.of(name)
    assert seen.asked is not None
    finding = seen.asked.findings[0]
    (guilty,) = TRUTHS[name].ranks
    # Forked ranks carry no rank where others can see it: processes are named.
    assert finding.culprit_pids == (seen.pids[guilty],)
    assert (finding.cause.value, finding.severity) == (TRUTHS[name].cause, Severity.ERROR)


@pytest.mark.parametrize("name", ["sleep"])
def test_a_look_at_real_ranks_travels_as_json(campaign: Campaign, name: str) -> None:
    snapshots = campaign.of(name).snapshots
    assert snapshots
    assert Snapshot.from_json(snapshots[-1].to_json()) == snapshots[-1]

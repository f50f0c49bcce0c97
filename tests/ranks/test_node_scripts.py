"""``emberward train`` on each node through torchrun's rendezvous: two nodes on this machine, two supervisors."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
from ports import reserve_port
from typer.testing import CliRunner

from emberward.checkpoint import latest, verify
from emberward.cli import app_of
from emberward.manifests import TrainingJob, node_script
from ranks.runs import curve, metrics

LIMIT_S = 240
STEPS = 24
RECIPE = ("bloom_tiny", "layout.dp=2", "layout.tp=1", "layout.pp=1", "save.interval=2", "sample_tokens=0")


class Nodes:
    """Processes that stand for nodes, each in a session of its own, as another machine would have it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen] = []

    def start(self, words: list[str], **names: str) -> subprocess.Popen:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        number = len(self.started)
        with (self.folder / f"node{number}.log").open("wb") as log:
            self.started.append(subprocess.Popen(
                words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **names},
            ))  # fmt: skip
        return self.started[-1]

    def train(self, number: int, nproc: int, *more: str) -> subprocess.Popen:
        words = [sys.executable, "-m", "emberward", "train", *RECIPE, f"steps={STEPS}", "--no-check"]
        return self.start([*words, "--nproc-per-node", str(nproc), "--grace-s", "30",
                           "--local-addr", "127.0.0.1", "--host", f"machine{number}", *more])  # fmt: skip

    def said(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("node*.log")))

    def runs(self) -> list[Path]:
        return sorted(path.parent for path in (self.folder / "runs" / "bloom_tiny").glob("*/config.resolved.yaml"))

    def num_steps(self) -> int:
        return len(metrics(self.runs()[-1])) if self.runs() else 0


@pytest.fixture
def nodes(tmp_path):
    made = Nodes(tmp_path)
    try:
        yield made
    finally:
        for each in made.started:
            if each.poll() is None:
                each.terminate()
        for each in made.started:
            try:
                each.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()


def test_two_nodes_of_a_manifest_train_one_run_and_post_what_they_see(nodes, tmp_path):
    job = TrainingJob(
        name="bloom_tiny",
        recipe="bloom_tiny",
        overrides=("steps=4", "layout.dp=2", "layout.tp=1", "layout.pp=1"),
        num_nodes=2,
        ranks_per_node=1,
        image="none",
        shared=PurePosixPath(tmp_path),
        runs=PurePosixPath(tmp_path / "runs"),
        typed="",
        grace_s=20,
        port=reserve_port(),
    )
    for rank in range(2):
        names = {"NODE_RANK": str(rank), "HOST_NAME": f"machine{rank}"}
        names |= dict.fromkeys(("HEAD_ADDRESS", "HOST_ADDRESS"), "127.0.0.1")
        nodes.start(["sh", "-c", node_script(job)], **names)
    assert [node.wait(LIMIT_S) for node in nodes.started] == [0, 0], nodes.said()
    (run,) = nodes.runs()
    assert len(metrics(run)) == 4
    posts = tmp_path / "runs" / "bloom_tiny-nodes" / "posts"
    assert {path.name.partition(".")[0] for path in posts.rglob("machine*")} >= {"machine0", "machine1"}


def test_a_stop_of_one_node_saves_on_all_and_a_node_that_is_lost_leaves_the_other_to_go_on(nodes, tmp_path, wait_until):
    """Static, then elastic: the second start goes on with the run, loses a node, and ends on the one that is left."""
    port = reserve_port()
    static = ("--nnodes", "2", "--master_addr", "127.0.0.1", "--master-port", str(port))
    both = [nodes.train(number, 1, *static, "--node_rank", str(number)) for number in range(2)]
    wait_until(lambda: nodes.num_steps() >= 4 or any(each.poll() is not None for each in both), "steps", LIMIT_S)
    both[1].terminate()
    assert [each.wait(LIMIT_S) for each in both] == [75, 75], nodes.said()

    elastic = (
        "--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{reserve_port()}", "--rdzv-id",
        "ours", "--max-restarts", "2", "--rdzv-conf",
    )  # fmt: skip
    meets = "last_call_timeout=15,keep_alive_interval=1,keep_alive_max_attempt=2,is_host="
    before = nodes.num_steps()
    first, second = (nodes.train(number, 1, *elastic, f"{meets}{1 - number}") for number in range(2))
    wait_until(
        lambda: nodes.num_steps() >= before + 3 or any(each.poll() is not None for each in (first, second)),
        "steps of both", LIMIT_S,
    )  # fmt: skip
    assert first.poll() is None and second.poll() is None, nodes.said()
    (run,) = nodes.runs()
    ranks = [json.loads(path.read_text()) for path in sorted((run / "ranks").glob("rank*.json"))]
    assert sorted(said["host"] for said in ranks) == ["machine0", "machine1"], nodes.said()
    for pid in lost_with(second.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert first.wait(LIMIT_S) == 0, nodes.said()
    assert [step for step, *_ in curve(run)] == list(range(1, STEPS + 1))
    assert "dp: 1" in (run / "config.resolved.yaml").read_text()


def lost_with(pid: int) -> list[int]:
    """The process and all below it, as a host without power loses them."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(path.parts[2]))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--nnodes", "2"), "--node-rank K"),
        (("--nnodes", "2", "--node-rank", "0"), "--master-addr HOST"),
        (("--nnodes", "1:2", "--node-rank", "0"), "--rdzv-backend c10d"),
        (("--nnodes", "1:2", "--rdzv-backend", "c10d"), "--rdzv-endpoint HOST:PORT"),
        (("--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "h:1"), "--rdzv-id ID"),
        (("--nnodes", "x", "--node-rank", "0", "--master-addr", "h"), "N, or MIN:MAX"),
        (("--node-rank", "0", "--master-addr", "h"), "--nnodes N"),
        (("--nnodes", "2", "--node-rank", "0", "--master-addr", "h", "--ranks", "2"), "how the nodes meet"),
        (("--nnodes", "2", "--node-rank", "0", "--master-addr", "h", "--resume"), "goes on by itself"),
    ],
)
def test_a_rendezvous_in_which_nobody_would_meet_is_refused(words, expected):
    done = CliRunner().invoke(app_of("train"), ["train", "bloom_tiny", *words])
    assert done.exit_code == 2
    assert "C113" in done.output and expected in done.output


def test_a_node_that_joins_later_trains_on_and_the_loss_of_the_one_where_they_meet_is_told(nodes, wait_until):
    """One node trains alone; the second joins, and both go on from its save; then the first one is lost."""
    meets = (
        "--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{reserve_port()}", "--rdzv-id",
        "ours", "--max-restarts", "3", "--rdzv-conf",
    )  # fmt: skip
    alive = "last_call_timeout=2,keep_alive_interval=2,keep_alive_max_attempt=10,is_host="
    small = ("model.num_layers=1", "model.hidden=32", "model.seq_len=32", "batch.global_batch=8", "steps=40000")
    first = nodes.train(0, 1, *meets, f"{alive}1", *small)
    wait_until(lambda: nodes.num_steps() >= 3 or first.poll() is not None, "steps of one", LIMIT_S)
    second = nodes.train(1, 1, *meets, f"{alive}0", *small)

    def num_ranks() -> int:
        return len(list((nodes.runs()[-1] / "ranks").glob("rank*.json")))

    wait_until(lambda: num_ranks() == 2 or second.poll() is not None, "two ranks", LIMIT_S)
    (run,) = nodes.runs()
    joined = metrics(run)[-1]["step"]
    wait_until(lambda: metrics(run)[-1]["step"] >= joined + 3 or second.poll() is not None, "steps of both", LIMIT_S)
    assert second.poll() is None, nodes.said()
    assert "dp: 2" in (run / "config.resolved.yaml").read_text(), nodes.said()
    for pid in lost_with(first.pid):
        with contextlib.suppress(ProcessLookupError):  # it may have ended by itself, as the writer of a save does
            os.kill(pid, signal.SIGKILL)
    assert second.wait(LIMIT_S) == 1, nodes.said()
    said = (nodes.folder / "node1.log").read_text(errors="replace")
    assert "RendezvousConnectionError" in said, "torchrun's own word for the place where the nodes met"
    assert "L102 rank 1 died first: RuntimeError" in said, said
    # The kernel says which: a reset, where the one that is gone had not read all that came.
    assert re.search("Connection (closed|reset) by peer", said), said
    assert verify(latest(run / "checkpoints")) == ()
    steps = [line["step"] for line in metrics(run)]
    assert sorted(set(steps)) == list(range(1, max(steps) + 1))

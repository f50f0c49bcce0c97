"""What ``emberward manifest`` lets each node run: two nodes on this machine train together under two supervisors."""

import os
import subprocess
import sys
from pathlib import Path, PurePosixPath

from ports import reserve_port

from emberward.manifests import TrainingJob, node_script

LIMIT_S = 240


def test_two_nodes_train_one_run_and_post_what_they_see(tmp_path):
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
    ours = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    nodes = []
    for rank in range(2):
        names = {"NODE_RANK": str(rank), "HOST_NAME": f"machine{rank}"}
        names |= dict.fromkeys(("HEAD_ADDRESS", "HOST_ADDRESS"), "127.0.0.1")
        nodes.append(subprocess.Popen(
            ["sh", "-c", node_script(job)], env={**ours, **names}, cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ))  # fmt: skip
    try:
        said = [node.communicate(timeout=LIMIT_S)[0] for node in nodes]
    finally:
        for node in nodes:
            node.kill()
            node.wait()
    assert [node.returncode for node in nodes] == [0, 0], said
    (run,) = (tmp_path / "runs" / "bloom_tiny").iterdir()
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 4
    posts = tmp_path / "runs" / "bloom_tiny-nodes" / "posts"
    assert {path.name.partition(".")[0] for path in posts.rglob("machine*")} >= {"machine0", "machine1"}

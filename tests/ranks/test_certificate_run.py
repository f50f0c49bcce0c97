"""A whole run in which one rank makes a call more, from its program's start-up to what the launcher says of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import emberward
from emberward.sources.dumps import explain_paths
from ranks.runs import SMALL, write_text

PLANT = """
import os
if os.environ.get("RANK") == "1":
    import torch
    import torch.distributed as dist
    from emberward.engine import Engine

    kept = Engine.train_step

    def train_step(engine, *args, **named):
        if named["step"] == 2:
            dist.all_reduce(torch.zeros(3))
        return kept(engine, *args, **named)

    Engine.train_step = train_step
"""


def start(tmp_path: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]], Path]:
    """A run of two ranks of which the second makes a call more in step 2: how it ended, its findings, its folder."""
    text = write_text(tmp_path / "data" / "text")
    (tmp_path / "sitecustomize.py").write_text(PLANT, encoding="utf-8")
    command = [sys.executable, "-m", "emberward", "train", "bloom_tiny", "--ranks", "2"]
    keys = [*SMALL, "steps=6", "timeout_s=600", f"data.train={text}", f"data.cache={tmp_path / 'cache'}"]
    paths = [str(Path(emberward.__file__).parents[1]), str(tmp_path), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [*command, "--runs", str(tmp_path / "runs"), *keys, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").glob("*/*")
    return done, [json.loads(line) for line in (folder / "findings.jsonl").read_text().splitlines()], folder


def test_a_rank_that_departs_ends_the_run_at_once_and_is_named_by_the_launcher(tmp_path):
    """Without a certificate the run would stand still for its time-out, which is ten minutes here."""
    done, findings, folder = start(tmp_path, "layout.dp=2", "layout.tp=1", "layout.pp=1")
    departures = [finding for finding in findings if finding["code"] == "R110"]
    assert [finding["culprit_ranks"] for finding in departures] == [[1]], "told once"
    assert [(finding["phase"]["step"], finding["attempt"]) for finding in departures] == [(2, 1)]
    assert [finding["site"] for finding in departures] == [f"{tmp_path / 'sitecustomize.py'}:12"]
    said = done.stdout + done.stderr
    assert "found     all_reduce world float32 3 sum" in said
    for rank in range(2):
        log = (folder / "logs" / f"rank{rank:05d}.log").read_text()
        assert f"certificate: rank {rank} runs what was proved" in log
    assert json.loads((folder / "attempts.jsonl").read_text().splitlines()[-1])["code"] == "R110"


def test_a_rank_that_departs_and_goes_on_is_named_while_all_stand_and_by_the_folder_afterwards(tmp_path):
    """Its peer waits in a transfer, it in its own call: by the calls alone either may be the one that is wrong."""
    words = (
        "layout.dp=1",
        "layout.tp=1",
        "layout.pp=2",
        "log.certificate=report",
        "--act-after",
        "1",
        "--grace-s",
        "1",
    )
    _, findings, folder = start(tmp_path, *words)
    named = [finding for finding in findings if finding["code"] == "H104"]
    for finding in (named[0], explain_paths([folder]).explanations[0].verdict.to_json()):
        assert (finding["severity"], finding["culprit_ranks"], finding["waiting_ranks"]) == ("error", [1], [0])
        assert (finding["cause"], finding["site"]) == ("extra_collective", "sitecustomize.py:12")
        assert finding["phase"]["step"] == 2
    assert [finding for finding in findings if finding["severity"] == "error" and 0 in finding["culprit_ranks"]] == []

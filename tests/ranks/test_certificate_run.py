"""A whole run in which one rank makes a call more, from its program's start-up to what the launcher says of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import emberward
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


def test_a_rank_that_departs_ends_the_run_at_once_and_is_named_by_the_launcher(tmp_path):
    """Without a certificate the run would stand still for its time-out, which is ten minutes here."""
    text = write_text(tmp_path / "data" / "text")
    (tmp_path / "sitecustomize.py").write_text(PLANT, encoding="utf-8")
    layout = ("layout.dp=2", "layout.tp=1", "layout.pp=1")
    command = [
        sys.executable,
        "-m",
        "emberward",
        "train",
        "bloom_tiny",
        "--ranks",
        "2",
        "--runs",
        str(tmp_path / "runs"),
    ]
    keys = [*SMALL, *layout, "steps=6", "timeout_s=600", f"data.train={text}", f"data.cache={tmp_path / 'cache'}"]
    paths = [str(Path(emberward.__file__).parents[1]), str(tmp_path), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run([*command, *keys], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").glob("*/*")
    findings = [json.loads(line) for line in (folder / "findings.jsonl").read_text().splitlines()]
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

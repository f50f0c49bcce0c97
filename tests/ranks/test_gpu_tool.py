"""`make gpu` on the CPU: the same steps, small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.thorough
def test_the_steps_of_make_gpu_pass_on_the_cpu(tmp_path):
    command = [sys.executable, ROOT / "tools" / "gpu.py", "--device", "cpu", "--into", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300.0)
    result = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert {each["key"]: each["is_right"] for each in result["attempts"]} == dict.fromkeys(
        ("engine", "memory", "shared", "certificate", "times", "resume", "recorder", "hang"), True
    ), result["attempts"]
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_without_a_gpu_nothing_is_written(tmp_path):
    command = [sys.executable, ROOT / "tools" / "gpu.py", "--into", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120.0)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "torch sees no CUDA device" in done.stderr

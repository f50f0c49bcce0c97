"""Listing, showing and verifying need no torch; the door that does says so when it is opened."""

import json
import subprocess
import sys

import torch
from unit.checkpoint.checkpoint_ranks import cut, random_bits, require_saved, save_all

import emberward.checkpoint
from emberward.checkpoint import describe, list_checkpoints

WITHOUT_TORCH = """
import sys, json
from pathlib import Path
sys.modules["torch"] = None
from emberward.checkpoint import describe, find_latest, list_checkpoints, verify
root = Path(sys.argv[1])
latest = find_latest(root).path
print(json.dumps({
    "ls": [info.to_json() for info in list_checkpoints(root)],
    "show": describe(latest).to_json(),
    "verify": [finding.to_json() for finding in verify(latest)],
}))
try:
    from emberward.checkpoint import load
except ImportError as error:
    print(error.name)
"""


def test_ls_show_and_verify_work_where_torch_does_not(tmp_path):
    whole = random_bits(torch.bfloat16, (6, 4), 1)
    shards = [[cut("layers.0.w", whole, ((0, 2), (0, 4)))], [cut("layers.0.w", whole, ((2, 6), (0, 4)))]]
    path = require_saved(save_all(tmp_path, shards, step=7, meta={"consumed_samples": 56}))
    command = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    first, second = done.stdout.splitlines()
    told = json.loads(first)
    assert second == "torch" and told["verify"] == []
    assert told["ls"] == [info.to_json() for info in list_checkpoints(tmp_path)]
    assert told["show"] == describe(path).to_json()
    num_bytes = sum(file.stat().st_size for file in path.glob("rank-*"))
    assert told["ls"] == [
        {
            "path": str(path),
            "step": 7,
            "is_latest": True,
            "problem": None,
            "world_size": 2,
            "num_tensors": 1,
            "num_bytes": num_bytes,
            "names": [],
        }
    ]
    show = told["show"]
    assert (show["num_elements"], show["meta"], show["num_bytes"]) == (24, {"consumed_samples": 56}, num_bytes)
    (tensor,) = show["tensors"]
    assert (tensor["name"], tensor["dtype"], tensor["shape"], tensor["num_bytes"]) == ("layers.0.w", "BF16", [6, 4], 48)
    assert tensor["pieces"] == [
        {"file": "rank-00000.safetensors", "box": [[0, 2], [0, 4]]},
        {"file": "rank-00001.safetensors", "box": [[2, 6], [0, 4]]},
    ]


def test_the_face_lists_every_public_name():
    for name in emberward.checkpoint.__all__:
        assert getattr(emberward.checkpoint, name) is not None
    assert not hasattr(emberward.checkpoint, "lod")

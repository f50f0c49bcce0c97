"""What a start looks at before it takes a save up."""

import dataclasses

import pytest
import torch
from unit.checkpoint.checkpoint_ranks import cut, random_bits, require_saved, save_all

from emberward.checkpoint import latest, read_manifest
from emberward.findings import EmberwardError
from emberward.rank._resume import ready_to_save, require_run_save


def test_a_folder_that_can_be_written_is_left_as_it_was(tmp_path):
    root = tmp_path / "checkpoints"
    assert ready_to_save(root, rank=3) is None
    assert list(root.iterdir()) == []


def test_a_file_where_the_folder_should_be_is_told(tmp_path):
    root = tmp_path / "checkpoints"
    root.write_text("no folder")
    problem = ready_to_save(root, rank=0)
    assert (problem.code, problem.where, problem.found) == ("K103", str(root), "File exists")


def test_a_save_that_no_training_made_is_not_gone_on_from(tmp_path):
    w = random_bits(torch.float32, (4, 4), 1)
    require_saved(save_all(tmp_path, [[cut("model/w", w, ((0, 4), (0, 4)))]], step=3))
    path = latest(tmp_path)
    manifest = read_manifest(path)
    with pytest.raises(EmberwardError) as caught:
        require_run_save(path, manifest)
    assert str(caught.value) == (
        f"K102 the save is not one of a training\n  where     {path}\n"
        "  expected  where it stood in its data, and its optimizer's count\n"
        "  found     no data_digest, no engine, no consumed_samples\n"
        f"  next      move it out of the run; start.checkpoint={path} begins a new run with its weights"
    )
    whole = {"data_digest": "d", "engine": {}, "consumed_samples": 0}
    require_run_save(path, dataclasses.replace(manifest, meta=whole))

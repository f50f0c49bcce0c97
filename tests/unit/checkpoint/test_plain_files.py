"""A pipe in the place of a file is damage, and never waited for; a damaged header goes into no conversion."""

import os
import shutil
import threading
from pathlib import Path

import pytest
import torch
from unit.checkpoint.checkpoint_ranks import cut, random_bits, require_saved, save_all

from emberward import checkpoint
from emberward.checkpoint import Foreign, Form, find_latest, list_checkpoints, verify
from emberward.findings import EmberwardError

W = random_bits(torch.float32, (8, 16), 1)
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder of saves with one save of two ranks."""
    root = tmp_path_factory.mktemp("saves")
    shards = [[cut("model/w", W, ((0, 4), (0, 16)))], [cut("model/w", W, ((4, 8), (0, 16)))]]
    require_saved(save_all(root, shards, step=10))
    return root


@pytest.fixture
def root(whole, tmp_path) -> Path:
    return shutil.copytree(whole, tmp_path / "saves")


def within_limit(call):
    """What `call` returns or raises; fails when it has not ended in time."""
    answer = []

    def work():
        try:
            answer.append(call())
        except EmberwardError as error:
            answer.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert answer, "it waits for the pipe"
    return answer[0]


def to_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("name", ["manifest.json", "probe.json", "rank-00001.safetensors"])
def test_a_pipe_in_place_of_a_file_is_found_by_verify(root, name):
    save = root / "step-00000010"
    to_pipe(save / name)
    findings = within_limit(lambda: verify(save))
    assert [finding.code for finding in findings] == ["K101"]
    assert findings[0].site.startswith(str(save / name))


@pytest.mark.parametrize("name", ["latest", "step-00000010/manifest.json", "step-00000010/names"])
def test_a_pipe_on_the_way_to_a_save_is_never_waited_for(root, name):
    to_pipe(root / name)
    (listed,) = within_limit(lambda: list_checkpoints(root))
    assert (listed.problem is None) == ("manifest" not in name)
    found = within_limit(lambda: find_latest(root))
    assert (found.path is None) == ("manifest" in name)


def flip_in_metadata(path: Path) -> None:
    """Changes one letter of the header and leaves it a header."""
    data = path.read_bytes()
    at = data.index(b"__metadata__") + 20
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


@pytest.mark.parametrize("form", [Form.HUGGING_FACE, Form.DCP])
def test_a_damaged_header_is_refused_by_its_file_before_anything_is_written(root, tmp_path, form):
    save = root / "step-00000010"
    checkpoint.export_checkpoint(save, tmp_path / "well", form=form, foreign=Foreign())
    flip_in_metadata(save / "rank-00001.safetensors")
    with pytest.raises(EmberwardError) as caught:
        checkpoint.export_checkpoint(save, tmp_path / "out", form=form, foreign=Foreign())
    assert caught.value.code == "K101"
    assert "rank-00001.safetensors" in caught.value.where
    with pytest.raises(EmberwardError, match=r"rank-00001\.safetensors"):
        checkpoint.reshape(save, tmp_path / "copies", num_ranks=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saves", "well"]


def test_the_tensors_that_are_written_are_counted(tmp_path):
    """A save of a weight with both moments: Hugging Face takes the weight, DCP and DeepSpeed the moments too."""
    names = ("model/w", "optim/exp_avg/w", "optim/exp_avg_sq/w")
    require_saved(save_all(tmp_path, [[cut(name, W, ((0, 8), (0, 16))) for name in names]], step=10))
    save, count = tmp_path / "step-00000010", {}
    for form in (Form.HUGGING_FACE, Form.DCP, Form.UNIVERSAL):
        made = checkpoint.export_checkpoint(save, tmp_path / form.value, form=form, foreign=Foreign())
        count[form] = made.to_json()["num_tensors"]
    assert count == {Form.HUGGING_FACE: 1, Form.DCP: 4, Form.UNIVERSAL: 3}  # DCP: each moment's `step` too
    from safetensors import safe_open

    with safe_open(tmp_path / "huggingface" / "model.safetensors", "pt") as file:
        assert len(list(file.keys())) == 1
    assert checkpoint.reshape(save, tmp_path / "copies", num_ranks=1).written.num_tensors == 3

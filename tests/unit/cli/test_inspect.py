"""``emberward inspect``: a tensor of a save by name, whole from the parts of several ranks."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner
from unit.checkpoint.checkpoint_ranks import cut, require_saved, save_all

from emberward.cli import app_of

VALUE = torch.linspace(-1, 2, 128).reshape(8, 16)
HALF = torch.tensor([1.5, float("nan"), -2.0, 0.0]).bfloat16()


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run's folder with the saves of steps 10 and 20, of two ranks."""
    run = tmp_path_factory.mktemp("run")
    (run / "checkpoints").mkdir()
    for step in (10, 20):
        value = VALUE * step
        halves = [((0, 4), (0, 16)), ((4, 8), (0, 16))]
        shards = [[cut(name, value, box) for name in ("model/w", "optim/exp_avg/w")] for box in halves]
        shards[0].append(cut("model/half", HALF, ((0, 4),)))
        require_saved(save_all(run / "checkpoints", shards, step=step))
    return run


def said(*words: str) -> tuple[int, dict, str]:
    """Exit code, document, and what is said to people."""
    told = CliRunner().invoke(app_of("inspect"), ["inspect", *words])
    programs = CliRunner().invoke(app_of("inspect"), ["inspect", *words, "--json"])
    assert programs.exit_code == told.exit_code
    return told.exit_code, json.loads(programs.stdout), told.stdout + told.stderr


def test_a_parameter_is_shown_whole_with_its_moments_and_where_it_lies(run):
    code, document, text = said(str(run), "w", "--values", "2")
    assert code == 0
    value, moment = document["tensors"]
    assert (value["tensor"]["name"], moment["tensor"]["name"]) == ("model/w", "optim/exp_avg/w")
    whole = (VALUE * 20).double()
    assert value["norm"] == pytest.approx(float(whole.norm()), rel=1e-6)
    assert (value["min"], value["max"]) == (float(whole.min()), float(whole.max()))
    assert value["values"] == whole.reshape(-1)[:2].tolist()
    assert (value["step"], value["num_elements"], value["num_not_finite"]) == (20, 128, 0)
    assert text.splitlines()[0].startswith("model/w   F32 8 x 16, step 20, digest ")
    assert "  [0:4 x 0:16] in rank-00000.safetensors" in text
    assert "  [4:8 x 0:16] in rank-00001.safetensors" in text


def test_an_older_save_and_another_type_are_read(run):
    _, document, _ = said(str(run), "model/half", "--step", "10")
    (found,) = document["tensors"]
    assert found["values"] == [1.5, "nan", -2.0, 0.0]
    assert (found["step"], found["num_not_finite"], found["num_zeros"], found["norm"]) == (10, 1, 1, 2.5)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("halff",), "did you mean model/half?"),
        (("w", "--step", "15"), "one of 10, 20"),
    ],
)
def test_what_the_run_lacks_is_said_with_what_it_has(run, words, told):
    code, document, text = said(str(run), *words)
    assert (code, document["findings"][0]["code"]) == (2, "K102")
    assert told in text


def test_a_flipped_bit_is_named(run, tmp_path):
    damaged = shutil.copytree(run, tmp_path / "run")
    file = damaged / "checkpoints" / "step-00000020" / "rank-00001.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    code, document, _ = said(str(damaged), "w")
    assert (code, document["findings"][0]["code"]) == (1, "K101")

"""``emberward checkpoint ls``, ``show`` and ``verify`` on saves that are whole, damaged or not there."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner
from unit.checkpoint.checkpoint_ranks import cut, random_bits, require_saved, save_all

from emberward.checkpoint import name_save
from emberward.cli import app_of

W = random_bits(torch.float32, (8, 16), 1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run's folder with the saves of steps 10 and 20, of two ranks."""
    run = tmp_path_factory.mktemp("run")
    (run / "checkpoints").mkdir()
    for step in (10, 20):
        shards = [[cut("model/w", W, ((0, 4), (0, 16)))], [cut("model/w", W, ((4, 8), (0, 16)))]]
        require_saved(save_all(run / "checkpoints", shards, step=step))
    return run


@pytest.fixture
def run(whole, tmp_path) -> Path:
    return shutil.copytree(whole, tmp_path / "run")


def said(verb: str, path: Path) -> tuple[int, dict, str]:
    """Exit code and document of the verb, and what it says to people when it gives no document."""
    told = CliRunner().invoke(app_of("checkpoint"), ["checkpoint", verb, str(path)])
    programs = CliRunner().invoke(app_of("checkpoint"), ["checkpoint", verb, str(path), "--json"])
    assert programs.exit_code == told.exit_code
    return told.exit_code, json.loads(programs.stdout), told.stdout + told.stderr


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_run_whose_saves_are_whole_is_verified_without_a_finding(run):
    code, document, text = said("verify", run)
    assert (code, document["findings"]) == (0, [])
    assert text == f"{run}/checkpoints/step-00000020: every byte is as it was saved\n"


def test_verify_names_file_tensor_and_bytes_to_people_too(run):
    save = run / "checkpoints" / "step-00000020"
    flip(save / "rank-00001.safetensors", -1)
    code, _, text = said("verify", run)
    assert code == 1
    first, then = text.splitlines()
    assert first.startswith(
        f"K101 data is not what was saved: {save}/rank-00001.safetensors tensor model/w[4:8, 0:16] bytes "
    )
    assert "expected CRC-32 " in first and ", found " in first
    assert then.startswith(f"next  emberward checkpoint verify {run}/checkpoints/step-00000010 ")


@pytest.mark.parametrize("file", ["manifest.json", "rank-00001.safetensors"])
def test_the_newest_save_is_never_passed_over_in_silence(run, file):
    save = run / "checkpoints" / "step-00000020"
    (save / file).unlink()
    code, document, text = said("verify", run)
    assert (code, document["save"]) == (1, str(save))
    assert f"{save}/{file}" in text
    code, document, text = said("show", run)
    assert code == 1
    assert text == (
        "K101 the newest save is damaged\n"
        f"  where     {save}\n"
        "  expected  a whole save\n"
        f"  found     {save} is damaged ({file}: No such file or directory); the newest whole save is step-00000010\n"
        f"  next      name the one that is meant, such as {run}/checkpoints/step-00000010\n"
    )
    code, document, _ = said("ls", run)
    assert code == 0
    assert {each["step"]: each["problem"] is None for each in document["saves"]} == {10: True, 20: False}
    code, document, _ = said("show", run / "checkpoints" / "step-00000010")
    assert (code, document["step"]) == (0, 10)


@pytest.mark.parametrize("text", ["step-00000099\n", "", "\xff", "../../etc\n"])
def test_a_pointer_that_points_nowhere_is_told_and_the_newest_whole_save_taken(run, text):
    (run / "checkpoints" / "latest").write_bytes(text.encode("latin1"))
    code, document, _ = said("verify", run)
    assert (code, document["save"]) == (0, f"{run}/checkpoints/step-00000020")
    assert [(each["code"], each["severity"]) for each in document["findings"]] == [("K101", "warning")]
    assert said("show", run)[1]["step"] == 20


def test_a_manifest_of_another_save_is_refused(run):
    saves = run / "checkpoints"
    shutil.copyfile(saves / "step-00000010" / "manifest.json", saves / "step-00000020" / "manifest.json")
    for verb in ("show", "verify"):
        code, document, _ = said(verb, saves / "step-00000020")
        assert code == 1
        (found,) = document["findings"]
        assert found["message"] == "the manifest cannot be believed"
        assert found["evidence"] == ["expected a whole manifest", "found the manifest of step 10"]


def test_names_of_saves_are_listed(run):
    name_save(run / "checkpoints" / "step-00000010", "before-spike-12")
    name_save(run / "checkpoints" / "step-00000020", "after-spike-12")
    _, document, text = said("ls", run)
    assert {each["step"]: each["names"] for each in document["saves"]} == {
        10: ["before-spike-12"],
        20: ["after-spike-12"],
    }
    assert "  before-spike-12 " in text and "  latest, after-spike-12 " in text


def test_what_is_no_run_is_refused_and_a_run_that_has_not_saved_is_not(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        for verb in ("ls", "show", "verify"):
            code, document, text = said(verb, path)
            assert code == 2
            assert document["findings"][0]["code"] == "K102"
            assert text.startswith("K102 there is no save here\n")
    (tmp_path / "config.resolved.yaml").write_text("name: run\n")
    code, document, _ = said("ls", tmp_path)
    assert (code, document["saves"]) == (0, [])

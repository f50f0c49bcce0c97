"""The root: which save to resume from, which are kept, and what is cleaned after a crash."""

import shutil
from pathlib import Path

import pytest
import torch
from unit.checkpoint.checkpoint_ranks import blank, cut, random_bits, require_saved, save_all

from emberward.checkpoint import (
    DISK,
    Keep,
    clean_leftovers,
    find_latest,
    is_checkpoint,
    latest,
    list_checkpoints,
    load,
    prune,
    read_manifest,
)
from emberward.checkpoint._names import Temporary, step_name, step_of, temporary_name, temporary_of
from emberward.findings import Severity

BOX = ((0, 4), (0, 3))


def put(root: Path, step: int, keep: int | None = None) -> Path:
    return require_saved(save_all(root, [[cut("w", value(step), BOX)]], step=step, meta={"tag": step}, keep=keep))


def value(step: int) -> torch.Tensor:
    return random_bits(torch.float32, (4, 3), step)


def steps(root: Path) -> list[int]:
    return [info.step for info in list_checkpoints(root)]


def names(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir())


def test_an_empty_or_missing_shelf_has_no_latest_and_nothing_to_tell(tmp_path):
    for root in (tmp_path, tmp_path / "none"):
        assert find_latest(root).path is None and find_latest(root).findings == ()
        assert list_checkpoints(root) == () and clean_leftovers(root) == ()


@pytest.mark.parametrize("name", ["step-1", "step-0000000a", "step-00000001x", "step-000000001", "xstep-00000001"])
def test_names_that_are_not_ours(name):
    assert step_of(name) is None
    assert temporary_of(f".{name}.0001.tmp") is None and temporary_of(f".{name}.tmp") is None


def test_names_come_back():
    for step in (0, 100, 99_999_999, 123_456_789):
        assert step_of(step_name(step)) == step
        for why in Temporary:
            assert temporary_of(temporary_name(step, 3, why)) == (step, 3, why)


def test_latest_is_what_the_pointer_names_even_when_a_newer_save_is_whole(tmp_path):
    older, newer = put(tmp_path, 10), put(tmp_path, 20)
    assert latest(tmp_path) == newer
    (tmp_path / "latest").write_text("step-00000010\n")
    found = find_latest(tmp_path)
    assert found.path == older and found.findings == ()
    assert [(info.step, info.is_latest) for info in list_checkpoints(tmp_path)] == [(10, True), (20, False)]


@pytest.mark.parametrize("pointer", [None, b"", b"step-000000", b"\xff\xfe", b"../../etc/passwd\n", b"step-00000099\n"])
def test_a_lost_or_damaged_pointer_falls_back_to_the_newest_whole_save_and_says_so(tmp_path, pointer):
    put(tmp_path, 10)
    newest = put(tmp_path, 20)
    (tmp_path / "latest").unlink()
    if pointer is not None:
        (tmp_path / "latest").write_bytes(pointer)
    found = find_latest(tmp_path)
    assert found.path == newest
    assert [(f.code, f.severity) for f in found.findings] == [("K101", Severity.WARNING)]


def test_newest_is_the_save_made_last_not_the_largest_step(tmp_path):
    """After a rewind from step 30 to 10 the branch that was left must not be taken up again."""
    put(tmp_path, 10), put(tmp_path, 30)
    rewound = put(tmp_path, 20)
    (tmp_path / "latest").unlink()
    assert latest(tmp_path) == rewound and steps(tmp_path) == [10, 30, 20]


@pytest.mark.parametrize("damage", ["manifest gone", "manifest cut", "file gone", "file cut", "file longer"])
def test_a_pointed_save_that_is_not_whole_is_passed_over_by_name(tmp_path, damage):
    older, newer = put(tmp_path, 10), put(tmp_path, 20)
    part, what = damage.split()
    path = newer / ("manifest.json" if part == "manifest" else "rank-00000.safetensors")
    data = path.read_bytes()
    if what == "gone":
        path.unlink()
    else:
        path.write_bytes(data + b"x" if what == "longer" else data[:-1])
    found = find_latest(tmp_path)
    assert found.path == older and "step-00000020 is damaged" in found.findings[0].message
    assert path.name in found.findings[0].message
    infos = {info.step: info for info in list_checkpoints(tmp_path)}
    assert infos[10].problem is None and infos[10].is_latest and path.name in str(infos[20].problem)


def test_no_whole_save_left_is_an_error_not_a_fresh_start(tmp_path):
    shutil.rmtree(put(tmp_path, 10))
    found = find_latest(tmp_path)
    assert found.path is None and [f.severity for f in found.findings] == [Severity.ERROR]


def test_keep_removes_all_but_the_saves_made_last(tmp_path):
    for step in (10, 30, 20, 40):
        put(tmp_path, step, keep=2)
    assert steps(tmp_path) == [20, 40] and latest(tmp_path) == tmp_path / "step-00000040"
    put(tmp_path, 50)
    assert steps(tmp_path) == [20, 40, 50]


def test_prune_never_removes_the_pointed_save_nor_a_damaged_one_nor_what_is_not_ours(tmp_path):
    for step in (10, 20, 30, 40):
        put(tmp_path, step)
    (tmp_path / "latest").write_text("step-00000010\n")
    (tmp_path / "step-00000020" / "manifest.json").unlink()
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "best").mkdir()
    assert prune(tmp_path, Keep(last=1)) == ("step-00000030",)
    assert names(tmp_path) == sorted(
        [".lock", "best", "latest", "notes.txt", "step-00000010", "step-00000020", "step-00000040"]
    )


def test_saving_a_step_again_replaces_it_whole(tmp_path):
    put(tmp_path, 10)
    tensor = random_bits(torch.float32, (4, 3), 77)
    path = require_saved(save_all(tmp_path, [[cut("w", tensor, BOX)]], step=10, meta={"tag": "again"}))
    shard = blank("w", tensor, BOX)
    load(path, [shard])
    assert torch.equal(shard.tensor.view(torch.int32), tensor.view(torch.int32))
    assert names(path.parent) == [".lock", "latest", "step-00000010"]
    assert read_manifest(path).serial == 2


def make_leftovers(root: Path) -> None:
    """What crashes leave: a half-save, a whole one that was never named, a half-deleted one; and what people leave."""
    (root / ".step-00000030.0001.tmp").mkdir()
    (root / ".step-00000030.0001.tmp" / "rank-00000.safetensors").write_bytes(b"half")
    shutil.copytree(root / "step-00000020", root / ".step-00000020.0002.tmp")
    (root / ".step-00000005.0001.gone").mkdir()
    for other in (".step-00000030.0001.bak", "step-30.tmp", ".step-x.0001.tmp"):
        (root / other).mkdir()


INCIDENT_PROGRAMS = [".step-00000030.0001.bak", ".step-x.0001.tmp", "step-30.tmp"]


def test_leftovers_are_cleaned_on_the_next_start_and_nothing_else_is(tmp_path):
    put(tmp_path, 20)
    make_leftovers(tmp_path)
    done = clean_leftovers(tmp_path)
    assert sorted(done) == [".step-00000005.0001.gone", ".step-00000020.0002.tmp", ".step-00000030.0001.tmp"]
    assert names(tmp_path) == sorted([".lock", "latest", "step-00000020", *INCIDENT_PROGRAMS])


def test_leftovers_are_cleaned_by_the_next_save_as_well(tmp_path):
    put(tmp_path, 20)
    make_leftovers(tmp_path)
    put(tmp_path, 30)
    assert names(tmp_path) == sorted([".lock", "latest", "step-00000020", "step-00000030", *INCIDENT_PROGRAMS])


def test_nothing_is_cleaned_while_a_writer_lives(tmp_path):
    put(tmp_path, 20)
    make_leftovers(tmp_path)
    before = names(tmp_path)
    lock = DISK.hold(tmp_path / ".lock")
    assert clean_leftovers(tmp_path) == () and names(tmp_path) == before
    put(tmp_path, 30)
    assert names(tmp_path) == sorted([*before, "step-00000030"])
    lock.close()
    assert len(clean_leftovers(tmp_path)) == 3


def test_a_save_set_aside_is_read_there_and_put_back(tmp_path):
    """The crash came between the two renames of a save that replaces one of the same step."""
    path = put(tmp_path, 20)
    path.rename(tmp_path / ".step-00000020.0001.old")
    found = find_latest(tmp_path)
    assert found.path == tmp_path / ".step-00000020.0001.old" and found.findings == ()
    shard = blank("w", value(20), BOX)
    load(tmp_path / ".step-00000020.0001.old", [shard])
    assert torch.equal(shard.tensor.view(torch.int32), value(20).view(torch.int32))
    clean_leftovers(tmp_path)
    assert latest(tmp_path) == path and steps(tmp_path) == [20]


def test_a_save_set_aside_is_not_removed_for_a_damaged_one(tmp_path):
    path = put(tmp_path, 20)
    shutil.copytree(path, tmp_path / ".step-00000020.0001.old")
    (path / "manifest.json").unlink()
    assert clean_leftovers(tmp_path) == ()
    assert (tmp_path / ".step-00000020.0001.old").exists()


def test_is_checkpoint_tells_one_save_from_a_shelf(tmp_path):
    assert is_checkpoint(tmp_path / "step-00000020") and not is_checkpoint(tmp_path / "checkpoints")

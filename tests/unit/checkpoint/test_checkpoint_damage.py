"""Every file cut, flipped, removed or swapped is found by name; and what is well is left in peace."""

import shutil
from pathlib import Path

import pytest
import torch
from unit.checkpoint.checkpoint_ranks import blank, cut, is_bit_equal, random_bits, require_saved, save_all

from emberward.checkpoint import Shard, load, read_manifest, verify
from emberward.checkpoint._crc import BLOCK_BYTES
from emberward.checkpoint._format import manifest_to_bytes, to_proved_json
from emberward.findings import EmberwardError, Severity

W = random_bits(torch.float32, (600, 1024), 1)  # 2.3 MiB: three blocks in one piece
TOP, BOTTOM = ((0, 300), (0, 1024)), ((300, 600), (0, 1024))
B = random_bits(torch.bfloat16, (16,), 2)
ALL = ((0, 600), (0, 1024))
FILES = ("manifest.json", "rank-00000.safetensors", "rank-00001.safetensors")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for step in (10, 20):
        shards = [[cut("w", W, TOP), cut("bias", B, ((0, 16),))], [cut("w", W, BOTTOM)]]
        require_saved(save_all(tmp_path, shards, step=step))
    return tmp_path


@pytest.fixture
def saved(root: Path) -> Path:
    return root / "step-00000020"


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def require_named(saved: Path, name: str) -> None:
    findings = verify(saved)
    assert findings, f"damage of {name} was not found"
    for finding in findings:
        assert (finding.code, finding.severity) == ("K101", Severity.ERROR)
        assert str(saved / name) in str(finding.site)
        assert "step-00000010" in finding.next, "the older save is offered"


def test_a_save_that_is_well_has_no_findings_nor_has_one_with_other_files_beside_it(saved):
    (saved / "README.txt").write_text("a person's note")
    assert verify(saved) == ()


def test_a_reading_tells_how_far_it_is_and_never_beyond_the_end(saved):
    told = []
    verify(saved, told=lambda done, total: told.append((done, total)))
    total = sum(entry.size_bytes for entry in read_manifest(saved).files)
    assert told == sorted(told) and len(told) == 3
    assert {each for _, each in told} == {total} and told[-1][0] == total


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("keep", [0, 1, 7, 8, 100, -1])
def test_a_cut_file_is_found_by_name(saved, name, keep):
    path = saved / name
    path.write_bytes(path.read_bytes()[:keep])
    require_named(saved, name)


@pytest.mark.parametrize("name", FILES)
def test_a_removed_file_is_found_by_name(saved, name):
    (saved / name).unlink()
    require_named(saved, name)


@pytest.mark.parametrize("name", FILES)
def test_a_grown_or_emptied_file_is_found_by_name(saved, name):
    path = saved / name
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0")
    require_named(saved, name)
    path.write_bytes(b"\0" * len(whole))
    require_named(saved, name)


def test_every_flipped_bit_of_the_manifest_is_found(saved):
    path = saved / "manifest.json"
    whole = path.read_bytes()
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        findings = verify(saved)
        assert len(findings) == 1 and findings[0].code in ("K101", "K102"), at
    path.write_bytes(whole)
    assert verify(saved) == ()


def test_every_flipped_byte_of_a_header_is_found(saved):
    name = FILES[1]
    whole = (saved / name).read_bytes()
    for at in range(read_manifest(saved).files[0].header_bytes):
        flip(saved / name, at, at % 8)
        require_named(saved, name)
        (saved / name).write_bytes(whole)


@pytest.mark.parametrize("back", [1, 2, BLOCK_BYTES, BLOCK_BYTES + 1, 300 * 1024 * 4 - 1])
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_of_data_is_found_with_its_tensor(saved, back, bit):
    path = saved / FILES[2]
    flip(path, path.stat().st_size - back, bit)
    require_named(saved, FILES[2])
    assert "w[300:600, 0:1024]" in str(verify(saved)[0].site)


def test_swapped_files_are_found_by_name(root, saved):
    first, second = (saved / name for name in FILES[1:])
    first.rename(saved / "x"), second.rename(first), (saved / "x").rename(second)
    findings = verify(saved)
    assert {Path(str(finding.site).split()[0]).name for finding in findings} == set(FILES[1:])


def test_a_file_of_another_save_is_found_by_name(root, saved):
    """Same sizes, same keys, same rank: only the step in the header and the values differ."""
    shutil.copy(root / "step-00000010" / FILES[2], saved / FILES[2])
    findings = verify(saved)
    assert len(findings) == 1 and "'step': '10'" in findings[0].evidence[1] and FILES[2] in str(findings[0].site)


def test_a_manifest_of_another_save_is_not_believed(root, saved):
    shutil.copy(root / "step-00000010" / "manifest.json", saved / "manifest.json")
    assert verify(saved) != ()


def test_a_manifest_that_proves_itself_but_breaks_the_format_is_refused(saved):
    body = {"step": 20, "serial": 2, "world_size": 1, "block_bytes": 1 << 20, "meta": {}, "files": [], "tensors": {}}
    piece = {"file": "../../x", "key": "k", "box": [[0, 1]], "offset": 0, "crc32": "00000000"}
    tensor = {"dtype": "F32", "shape": [1], "digest": "0" * 16, "pieces": [piece]}
    for change in (
        {"tensors": {"w": tensor}},
        {"tensors": {"w": {**tensor, "pieces": [{**piece, "file": FILES[1], "box": [[0, 2]]}]}}},
        {"tensors": {"w": {**tensor, "pieces": [{**piece, "file": FILES[1], "crc32": ""}]}}},
        {"tensors": {"w": {**tensor, "dtype": "F31"}}},
        {"files": [{"name": "/etc/passwd"}]},
        {"block_bytes": 7},
    ):
        (saved / "manifest.json").write_bytes(to_proved_json("emberward_checkpoint", {**body, **change}))
        with pytest.raises(EmberwardError, match="K101"):
            read_manifest(saved)
    (saved / "manifest.json").write_bytes(to_proved_json("emberward_checkpoint", body))
    assert read_manifest(saved).tensors == {}


def test_a_whole_load_of_damaged_data_raises_and_names_it(saved):
    flip(saved / FILES[2], (saved / FILES[2]).stat().st_size - 5)
    with pytest.raises(EmberwardError) as caught:
        load(saved, [blank("w", W, ALL)])
    assert caught.value.code == "K101" and "w[300:600, 0:1024]" in str(caught.value.where)


def test_a_load_proves_what_it_reads_and_reads_only_what_it_needs(saved):
    """The damaged block is the last of three: rows of the first ones load, one row of the last does not."""
    flip(saved / FILES[2], (saved / FILES[2]).stat().st_size - 5)
    for box in (((0, 300), (0, 1024)), ((300, 301), (7, 8)), ((300, 556), (0, 1024))):
        shard = blank("w", W, box)
        load(saved, [shard])
        assert is_bit_equal(shard.tensor, cut("w", W, box).tensor)
    bias = blank("bias", B, ((3, 9),))
    load(saved, [bias])
    for box in (((599, 600), (1023, 1024)), ((590, 591), (0, 1)), ((0, 600), (5, 6))):
        with pytest.raises(EmberwardError, match="K101"):
            load(saved, [blank("w", W, box)])


def test_a_load_asks_nothing_of_files_it_does_not_need(saved):
    (saved / FILES[2]).unlink()
    load(saved, [blank("w", W, TOP)])
    with pytest.raises(EmberwardError, match="K101"):
        load(saved, [blank("w", W, ALL)])


def message(saved: Path, wanted: list[Shard]) -> str:
    with pytest.raises(EmberwardError) as caught:
        load(saved, wanted)
    return str(caught.value).replace(str(saved.parent), "checkpoints")


def test_message_of_damaged_data(saved):
    flip(saved / FILES[2], (saved / FILES[2]).stat().st_size - 5)
    crcs = [f"{crc:08x}" for crc in read_manifest(saved).tensors["w"].pieces[1].crc32]
    text = message(saved, [blank("w", W, ALL)])
    found = text.split("found     CRC-32 ")[1].split("\n")[0]
    assert found not in crcs
    assert text == (
        "K101 data is not what was saved\n"
        "  where     checkpoints/step-00000020/rank-00001.safetensors tensor w[300:600, 0:1024] "
        "bytes 1048752..1228975\n"
        f"  expected  CRC-32 {crcs[1]}\n"
        f"  found     CRC-32 {found}\n"
        "  next      emberward checkpoint verify checkpoints/step-00000010"
        "      (the save before it, of step 10: resume there)"
    )


def test_message_of_a_missing_file_with_no_older_save(root, saved):
    shutil.rmtree(root / "step-00000010")
    (saved / FILES[1]).unlink()
    assert message(saved, [blank("w", W, ALL)]) == (
        "K101 a data file is missing or cut\n"
        "  where     checkpoints/step-00000020/rank-00000.safetensors\n"
        "  expected  1229080 bytes\n"
        "  found     No such file or directory\n"
        "  next      emberward checkpoint verify checkpoints/step-00000020      (there is no older save beside it)"
    )


def test_messages_of_tensors_that_do_not_fit(saved):
    before = blank("bias", B, ((0, 16),)).tensor.clone()
    renamed = Shard(name="biass", global_shape=(16,), box=((0, 16),), tensor=before)
    other_dtype = Shard(name="bias", global_shape=(16,), box=((0, 16),), tensor=torch.zeros(16))
    other_shape = Shard(name="w", global_shape=(600, 512), box=((0, 600), (0, 512)), tensor=torch.zeros(600, 512))
    assert message(saved, [renamed]) == (
        "K102 tensor biass does not fit the checkpoint\n"
        "  where     checkpoints/step-00000020\n"
        "  expected  biass in the checkpoint\n"
        "  found     no such tensor\n"
        "  next      did you mean bias?      emberward checkpoint show checkpoints/step-00000020"
    )
    assert message(saved, [other_shape, other_dtype]) == (
        "K102 tensor w does not fit the checkpoint; nor do bias\n"
        "  where     checkpoints/step-00000020\n"
        "  expected  w shape (600, 512)\n"
        "  found     shape (600, 1024)\n"
        "  next      emberward checkpoint show checkpoints/step-00000020"
    )
    assert "expected  bias dtype F32" in message(saved, [blank("w", W, ALL), other_dtype])


def test_nothing_is_written_when_one_tensor_does_not_fit(saved):
    fits = blank("w", W, ALL)
    before = fits.tensor.clone()
    message(saved, [fits, Shard(name="none", global_shape=(1,), box=((0, 1),), tensor=torch.zeros(1))])
    assert is_bit_equal(fits.tensor, before)


def test_a_newer_format_is_told_from_damage(saved):
    data = manifest_to_bytes(read_manifest(saved)).replace(b'{"emberward_checkpoint": 1', b'{"emberward_checkpoint": 2')
    (saved / "manifest.json").write_bytes(data)
    with pytest.raises(EmberwardError) as caught:
        read_manifest(saved)
    assert str(caught.value).replace(str(saved.parent), "checkpoints") == (
        "K102 the checkpoint was written by a newer Emberward\n"
        "  where     checkpoints/step-00000020/manifest.json\n"
        "  expected  format version 1\n"
        "  found     format version 2\n"
        "  next      pip install --upgrade emberward"
    )

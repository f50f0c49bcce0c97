"""Damaged checkpoints of other programs are refused by the file's name, and nothing is written; sound ones are not."""

import json
import shutil
import subprocess
import sys
import warnings
import zipfile

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from unit.checkpoint.convert_samples import deepspeed_classes, equal, unpacked, values, write_tensor_parallel

from emberward import checkpoint
from emberward.checkpoint import Foreign
from emberward.checkpoint._foreign._evidence import Evidence
from emberward.checkpoint._foreign._torch_file import open_torch_file
from emberward.findings import EmberwardError

DEEPSPEED = ("zero1", "zero2", "zero3")
UNIVERSAL = ("zero1_universal", "zero3_universal")
TORCH_FILES = (*DEEPSPEED, *UNIVERSAL, "dcp")
ALL = (*TORCH_FILES, "huggingface")
DATA_FILES = {**dict.fromkeys(DEEPSPEED, "*_optim_states.pt"), "dcp": "*.distcp", "huggingface": "*.safetensors"}
DATA_FILES |= dict.fromkeys(UNIVERSAL, "zero/*.qkv.weight/*.pt")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder of each form, by name."""
    root = tmp_path_factory.mktemp("sound")
    unpacked(root)
    forms = {name: root / name / ("step3_universal" if "universal" in name else "step3") for name in TORCH_FILES[:-1]}
    generator = torch.Generator().manual_seed(4)
    tensors = {f"{n}.weight": torch.randn(12, 7, generator=generator) for n in range(4)}
    with warnings.catch_warnings(action="ignore"):
        dcp.save({"model": tensors, "step": 5}, checkpoint_id=str(root / "dcp"), no_dist=True)
    hugging_face = root / "huggingface"
    hugging_face.mkdir()
    halves = [dict(list(tensors.items())[:2]), dict(list(tensors.items())[2:])]
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    for name, half in zip(names, halves, strict=True):
        save_file(half, hugging_face / name)
    index = {"metadata": {"total_size": 4 * 12 * 7 * 4}}
    index["weight_map"] = {key: name for name, half in zip(names, halves, strict=True) for key in half}
    (hugging_face / "model.safetensors.index.json").write_text(json.dumps(index))
    return {**forms, "dcp": root / "dcp", "huggingface": hugging_face}


def victims(folder, form):
    """The files of ranks or shards that hold tensors."""
    return sorted(folder.glob(DATA_FILES[form]))


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def a_bit_of_a_tensor(folder, form):
    victim = victims(folder, form)[-1]
    if form == "dcp":
        flip(victim, victim.read_bytes().index(torch.load(folder.parent / "probe.pt").numpy().tobytes()))
        return victim.name
    flip(victim, max(open_torch_file(victim).storages.values(), key=lambda record: record.num_bytes).begin + 1)
    return victim.name


def a_page_of_zeros(folder, form):
    victim = victims(folder, form)[0]
    data = bytearray(victim.read_bytes())
    at = len(data) // 2
    data[at : at + 64] = bytes(64)
    victim.write_bytes(data)
    return victim.name


def a_bit_of_a_pickle(folder, form):
    victim = victims(folder, form)[0]
    flip(victim, victim.read_bytes().index(b"_rebuild_tensor_v2") - 9)
    return victim.name


def a_bit_of_the_directory(folder, form):
    victim = victims(folder, form)[0]
    flip(victim, victim.read_bytes().rindex(b"PK\x01\x02") + 17)
    return victim.name


def cut(folder, form):
    victim = victims(folder, form)[-1]
    victim.write_bytes(victim.read_bytes()[:-150])
    return victim.name


def empty(folder, form):
    victim = victims(folder, form)[-1]
    victim.write_bytes(b"")
    return victim.name


def missing(folder, form):
    victim = victims(folder, form)[-1]
    victim.unlink()
    if form in DEEPSPEED:
        return "data rank 1"
    return victim.parent.name if form in UNIVERSAL else victim.name


def longer(folder, form):
    victim = victims(folder, form)[-1]
    victim.write_bytes(victim.read_bytes() + bytes(8))
    return victim.name


def exchanged(folder, form):
    a, b = victims(folder, form)[:2]
    a.rename(folder / "aside"), b.rename(a), (folder / "aside").rename(b)
    return a.name, b.name


def a_copy_of_another(folder, form):
    a, b = victims(folder, form)[:2]
    shutil.copy(b, a)
    return a.name, b.name


def a_rank_too_many(folder, _form):
    victim = victims(folder, _form)[-1]
    added = victim.with_name(victim.name.replace("zero_pp_rank_1", "zero_pp_rank_2"))
    shutil.copy(victim, added)
    return added.name


def rewritten(path, change):
    """Changes the tree of a torch file, whose checksums are right again then."""
    with deepspeed_classes():
        tree = torch.load(path, weights_only=False)
        torch.save(change(tree) or tree, path)
    return path.name


def of_another_step(folder, _form):
    victim = sorted(folder.glob("*model_states.pt"))[-1]
    if victim.name.startswith("layer_") or len(list(folder.glob("*mp_rank*_model_states.pt"))) == 1:
        victim = sorted(folder.glob("*_optim_states.pt"))[-1]
        return rewritten(victim, lambda tree: _set_step(tree["optimizer_state_dict"]))
    return rewritten(sorted(folder.glob("*mp_rank*_model_states.pt"))[-1], lambda tree: tree.update(global_steps=4))


def _set_step(optimizer):
    state = optimizer.get("base_optimizer_state") or optimizer["optimizer_state_dict"]
    state["state"][0]["step"] += 1


def of_another_count_of_updates(folder, _form):
    return rewritten(sorted(folder.glob("zero/*/step.pt"))[3], lambda tree: tree + 1)


def of_more_ranks(folder, _form):
    def change(tree):
        optimizer = tree["optimizer_state_dict"]
        count = optimizer["partition_count"]
        optimizer["partition_count"] = [4] if isinstance(count, list) else 4

    return rewritten(victims(folder, _form)[-1], change)


def another_range(folder, _form):
    """A rank's file that begins with another parameter than its place in the model says."""

    def change(tree):
        mapping = tree["optimizer_state_dict"]["param_slice_mappings"][0]
        mapping.pop(next(iter(mapping)))

    return rewritten(victims(folder, _form)[1], change)


def another_padding(folder, _form):
    return rewritten(victims(folder, _form)[0], lambda tree: tree["optimizer_state_dict"].update(group_paddings=[4]))


def too_short(folder, _form):
    def change(tree):
        optimizer = tree["optimizer_state_dict"]
        state = optimizer.get("base_optimizer_state", optimizer.get("optimizer_state_dict"))["state"][0]
        groups = optimizer.get("single_partition_of_fp32_groups", optimizer.get("fp32_flat_groups"))
        groups[0] = groups[0][:-2].clone()
        state.update({key: state[key][:-2].clone() for key in ("exp_avg", "exp_avg_sq")})

    return rewritten(victims(folder, _form)[-1], change)


def another_copy_to_compute_with(folder, _form):
    def change(tree):
        tree.get("module", tree)["2.fc1.bias" if "module" in tree else "fc1.bias"][3] += 1

    model = folder / "mp_rank_00_model_states.pt"
    rewritten(model if _form == "zero2" else folder / "layer_02-model_states.pt", change)
    return "_optim_states.pt", "model_states.pt"


def another_index(folder, _form):
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["0.weight"] = index["weight_map"]["3.weight"]
    path.write_text(json.dumps(index))
    return "model-00001-of-00002.safetensors"


def another_size_in_the_index(folder, _form):
    path = folder / "model.safetensors.index.json"
    path.write_text(path.read_text().replace(f'"total_size": {4 * 12 * 7 * 4}', '"total_size": 12'))
    return path.name


def a_shape_that_does_not_fit(folder, _form):
    path = folder / "model-00001-of-00002.safetensors"
    path.write_bytes(path.read_bytes().replace(b"[12,7]", b"[12,6]", 1))
    return path.name


HARMS = {
    a_bit_of_a_tensor: TORCH_FILES,
    a_page_of_zeros: TORCH_FILES,
    a_bit_of_a_pickle: TORCH_FILES,
    a_bit_of_the_directory: TORCH_FILES,
    cut: ALL,
    empty: ALL,
    missing: ALL,
    longer: ("dcp", "huggingface"),
    exchanged: (*DEEPSPEED, *UNIVERSAL, "huggingface"),
    a_copy_of_another: (*DEEPSPEED, *UNIVERSAL, "huggingface"),
    a_rank_too_many: DEEPSPEED,
    of_another_step: DEEPSPEED,
    of_another_count_of_updates: ("zero1_universal",),
    of_more_ranks: DEEPSPEED,
    another_range: ("zero1", "zero2"),
    another_padding: ("zero1", "zero2"),
    too_short: DEEPSPEED,
    another_copy_to_compute_with: ("zero1", "zero2"),
    another_index: ("huggingface",),
    another_size_in_the_index: ("huggingface",),
    a_shape_that_does_not_fit: ("huggingface",),
}


@pytest.mark.parametrize(("harm", "form"), [(harm, form) for harm, forms in HARMS.items() for form in forms])
def test_damage_is_refused_by_the_file_s_name_and_nothing_is_written(sound, tmp_path, harm, form):
    folder = tmp_path / sound[form].name
    shutil.copytree(sound[form], folder)
    if form == "dcp":
        torch.save(values(folder)["model/2.weight"], tmp_path / "probe.pt")
    named = harm(folder, form)
    with pytest.raises(EmberwardError) as caught:
        checkpoint.import_checkpoint(folder, tmp_path / "saves", foreign=Foreign(), step=3, num_workers=1)
    names = (named,) if isinstance(named, str) else named
    assert caught.value.code in ("K110", "K123") and any(name in caught.value.text() for name in names)
    assert [path.name for path in tmp_path.iterdir() if path.name not in (folder.name, "probe.pt")] == []


@pytest.mark.parametrize("form", ALL)
def test_what_is_sound_is_imported_without_a_word_of_damage(sound, tmp_path, form):
    made = checkpoint.import_checkpoint(sound[form], tmp_path / "saves", foreign=Foreign(), step=3, num_workers=1)
    assert [finding.code for finding in made.findings if finding.code == "K123"] == []
    assert equal(values(made.written.path), values(sound[form])) == []
    assert all(item.ours or item.why for item in made.items) and made.table


@pytest.mark.parametrize("form", ["zero2", "zero3", "zero3_universal", "dcp"])
def test_a_bit_anywhere_is_refused_or_changes_nothing(sound, tmp_path, form):
    """Headers and paddings of an archive have no checksum: a bit of them may be flipped as long as no value changes."""
    folder = tmp_path / "copy"
    shutil.copytree(sound[form], folder)
    expected, victim = values(folder), victims(folder, form)[0]
    data, refused = victim.read_bytes(), 0
    for at in range(3, len(data), max(1, len(data) // 25)):
        flip(victim, at)
        try:
            source = checkpoint.open_source(folder, Foreign().reading())
            source.evidence.finish()
            assert equal(values(folder), expected) == []
        except EmberwardError as error:
            refused += 1
            assert victim.name in error.text()
        victim.write_bytes(data)
    assert refused >= 15


def test_the_message_of_a_flipped_bit(sound, tmp_path):
    folder = tmp_path / "step3"
    shutil.copytree(sound["zero3"], folder)
    victim = folder / "zero_pp_rank_1_mp_rank_00_optim_states.pt"
    record = open_torch_file(victim).storages["1"]
    with zipfile.ZipFile(victim) as archive:
        crc = archive.getinfo(f"{victim.stem}/data/1").CRC
    flip(victim, record.begin)
    with pytest.raises(EmberwardError) as caught:
        checkpoint.import_checkpoint(folder, tmp_path / "saves", foreign=Foreign())
    text = caught.value.text()
    found = next(line for line in text.splitlines() if line.startswith("  found")).split()[1]
    assert text == (
        "K123 record data/1 does not have its checksum\n"
        f"  where     {victim}\n"
        f"  expected  CRC-32 {crc:08x}\n"
        f"  found     {found}\n"
        f"  next      copy the file again; if you know better: --accept-damage {victim.name}"
    )
    assert len(found) == 8 and found != f"{crc:08x}"


def test_accepted_damage_is_imported_and_said(sound, tmp_path):
    from unit.cli.door import emberward

    folder = tmp_path / "step3"
    shutil.copytree(sound["zero3"], folder)
    name = a_bit_of_a_tensor(folder, "zero3")
    said = emberward("checkpoint", "import", str(folder), "saves", "--json", cwd=tmp_path)
    assert (said.code, said.document["findings"][0]["code"]) == (1, "K123")
    assert not (tmp_path / "saves").exists()
    said = emberward("checkpoint", "import", str(folder), "saves", "--accept-damage", name, "--json", cwd=tmp_path)
    assert said.code == 0, said.err
    assert [(one["code"], one["severity"]) for one in said.document["findings"]] == [("K123", "warning")]
    assert said.document["findings"][0]["message"].startswith(f"damage of {name} was accepted: record data/")
    with pytest.raises(EmberwardError, match="K110 no file of the checkpoint has this name"):
        checkpoint.import_checkpoint(sound["zero3"], tmp_path / "other", foreign=Foreign(accept_damage=("none.pt",)))


def test_a_repair_does_not_pass_damage_under_new_checksums(tmp_path):
    """It makes the checksums of the files that it changes anew, and a bit flipped elsewhere would go with it."""
    from unit.checkpoint.convert_samples import FAMILY

    (tmp_path / "family.yaml").write_text(FAMILY)
    folder = write_tensor_parallel(tmp_path / "step9", tp=2, drift={"2.norm.weight": {1: 0.5}})
    reading = Foreign(family=str(tmp_path / "family.yaml"), replicas="average").reading()
    a_bit_of_a_tensor(folder, "zero1")
    with pytest.raises(EmberwardError, match="K123 record data/. does not have its checksum".replace(".", r"\d", 1)):
        checkpoint.repair_replicas(folder, tmp_path / "mended", reading=reading)
    assert not (tmp_path / "mended").exists()


def test_what_is_read_in_any_order_has_the_checksum_of_the_whole(tmp_path):
    data = bytes(range(256)) * 40
    torch.save({"a": torch.frombuffer(bytearray(data), dtype=torch.uint8)}, tmp_path / "a.pt")
    for order in ([(0, 100), (100, 10240)], [(4000, 5000), (0, 4500), (4900, 10240)], [(0, 10240), (5, 7)], []):
        evidence = Evidence()
        record = open_torch_file(tmp_path / "a.pt", evidence).storages["0"]
        for begin, end in order:
            record.add(record.begin + begin, memoryview(data)[begin:end])
        assert record.is_proved == bool(order)
        evidence.finish()
        assert record.is_proved
    record = open_torch_file(tmp_path / "a.pt").storages["0"]
    record.add(record.begin, memoryview(data)[:5000])
    with pytest.raises(EmberwardError, match="K123"):
        record.add(record.begin + 5000, memoryview(b"x" + data[5001:]))


# -- pickles that would take all memory --------------------------------------------------------------------------------

BOMBS = {
    "memo index": b"\x80\x02Nr\xff\xff\xff\x0f.",
    "memo index as text": b"\x80\x02Np999999999\n.",
    "byte array": b"\x80\x05\x96\x00\x00\x00\x00\x01\x00\x00\x00.",
    "bytes": b"\x80\x04\x8e\x00\x00\x00\x00\x10\x00\x00\x00.",
    "text": b"\x80\x04\x8d\x00\x00\x00\x00\x10\x00\x00\x00.",
    "long": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "number as argument": b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
    "shared lists": b"\x80\x02]q\x00" + b"".join(b"](" + b"h" + bytes([n]) * 1 + (b"h" + bytes([n])) * 9 + b"eq"
                    + bytes([n + 1]) for n in range(30)) + b".",
    "itself": b"\x80\x02]q\x00h\x00a.",
    "deep lists": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "deep tuples as a key": b"\x80\x02}N" + b"\x85" * 500_000 + b"Ns.",
    "marks": b"\x80\x02" + b"(" * 20_000_000 + b".",
    "values that wait": b"\x80\x02" + b"N" * 20_000_000 + b".",
    "opcode of no torch file": b"\x80\x02\x82\x01.",
}  # fmt: skip

CHILD = """
import resource, sys
from pathlib import Path
from emberward import checkpoint
from emberward.checkpoint import Foreign
from emberward.findings import EmberwardError
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for folder in sorted(Path(sys.argv[1]).iterdir()):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        checkpoint.import_checkpoint(folder, folder / "saves", foreign=Foreign())
    except EmberwardError as error:
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        print(folder.name, error.code, str(folder) in error.text(), "MemoryError" in error.text(), grown, sep="\\t")
"""


def test_bombs_are_refused_in_a_gigabyte_and_a_sound_pickle_is_not(tmp_path):
    for name, data in BOMBS.items():
        (tmp_path / "dcp" / name).mkdir(parents=True)
        (tmp_path / "dcp" / name / ".metadata").write_bytes(data)
    huge = tmp_path / "dcp" / "sparse file"
    huge.mkdir()
    with (huge / ".metadata").open("wb") as file:
        file.truncate(3 << 30)
    header = tmp_path / "dcp" / "safetensors header"
    header.mkdir()
    (header / "model.safetensors").write_bytes((1 << 40).to_bytes(8, "little") + b"{}")
    command = [sys.executable, "-c", CHILD, str(tmp_path / "dcp")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    said = {row[0]: row[1:] for row in (line.split("\t") for line in done.stdout.splitlines())}
    assert set(said) == {*BOMBS, "sparse file", "safetensors header"}
    for name, (code, is_named, is_out_of_memory, grown_mb) in said.items():
        assert (code, is_named, is_out_of_memory) == ("K110", "True", "False"), name
        assert int(grown_mb) < 100, name  # the longest are 20 MB of opcodes
    shared = {"list": [1, 2], "deep": [[[[[(1, (2, "x" * 1000))]]]]]}
    torch.save({"a": [shared] * 50, "t": torch.ones(3)}, tmp_path / "sound.pt")
    assert open_torch_file(tmp_path / "sound.pt").tree["a"][49]["list"] == [1, 2]


def test_a_sound_safetensors_file_is_that_of_its_library(sound):
    read = values(sound["huggingface"])
    for path in sound["huggingface"].glob("*.safetensors"):
        assert equal({name: read[f"model/{name}"] for name in load_file(path)}, load_file(path)) == []

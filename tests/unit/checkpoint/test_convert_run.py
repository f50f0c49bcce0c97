"""A conversion that is killed goes on, needs little memory, says how far it is, and is never seen half done."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from unit.checkpoint.convert_samples import equal, unpacked, values
from unit.cli.door import emberward, without_torch

from emberward import checkpoint
from emberward.checkpoint import (
    DType,
    Foreign,
    Form,
    Probe,
    Shard,
    alone,
    read_manifest,
    read_probe,
    verify,
    write_probe,
)
from emberward.cli._exchange import parse_bytes
from emberward.cli._words import plain_value
from emberward.findings import ConfigError, EmberwardError

CHILD = """
import os, resource, signal, sys, time
from pathlib import Path
from emberward import checkpoint
from emberward.checkpoint import _convert, Foreign, Form
_convert._BATCH_BYTES = 1
source, result, form, kill_at = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])
def told(done, total):
    if done >= kill_at * total:
        end_s = time.monotonic() + 30  # two files are on their way to the disk by now, if not there
        while num_whole() < 2 and time.monotonic() < end_s:
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGKILL)
def num_whole():
    return sum(path.read_bytes().count(b"\\n") - 1 for path in result.parent.rglob(_convert.JOURNAL))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if form == "emberward":
    made = checkpoint.reshape(source, result, num_ranks=8, told=told)
else:
    options = {"form": Form(form), "foreign": Foreign(), "max_shard_bytes": 60_000}
    made = checkpoint.export_checkpoint(source, result, told=told, **options)
print(made.written.num_kept, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def child(*words):
    command = [sys.executable, "-c", CHILD, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def make_save(folder, *, num_ranks=8, rows=64, width=200, count=6):
    """A save with weights and moments, cut in rows among ranks that are played one after the other."""
    generator = torch.Generator().manual_seed(2)
    tensors = {
        f"{kind}/blocks.{n}.weight": torch.randn(rows, width, generator=generator)
        for n in range(count)
        for kind in ("model", "optim/exp_avg", "optim/exp_avg_sq")
    }
    shards = [
        Shard(name=name, global_shape=tuple(tensor.shape), box=((0, rows), (0, width)), tensor=tensor)
        for name, tensor in tensors.items()
    ]
    meta = {"num_updates": 7}
    checkpoint.save(folder / "one", step=7, shards=shards, meta=meta, rank=0, world_size=1, agree=alone)
    if num_ranks == 1:
        return folder / "one" / "step-00000007", tensors
    made = checkpoint.reshape(folder / "one" / "step-00000007", folder / "saves", num_ranks=num_ranks)
    return made.written.path, tensors


@pytest.fixture(scope="module")
def save(tmp_path_factory):
    return make_save(tmp_path_factory.mktemp("saves"))


@pytest.mark.parametrize("form", ["emberward", "deepspeed-universal", "huggingface"])
def test_a_killed_conversion_goes_on_where_it_stopped(save, tmp_path, form):
    path, tensors = save
    result = tmp_path / ("root" if form == "emberward" else "out")
    killed = child(path, result, form, 0.7)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not result.exists() or checkpoint.latest(result) is None
    done = child(path, result, form, 2)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) >= 2, "files of the killed one were kept"
    wanted = tensors if form != "huggingface" else {n: t for n, t in tensors.items() if n.startswith("model/")}
    assert equal(values(result), wanted) == []
    assert [entry.name for entry in tmp_path.iterdir() if "converting" in entry.name] == []
    if form == "emberward":
        assert verify(result / "step-00000007") == ()


def test_another_conversion_to_the_same_place_starts_anew(save, tmp_path):
    path, tensors = save
    assert child(path, tmp_path / "out", "huggingface", 0.5).returncode == -signal.SIGKILL
    made = checkpoint.export_checkpoint(
        path, tmp_path / "out", form=Form.HUGGING_FACE, foreign=Foreign(), dtype=DType.F64, max_shard_bytes=300_000
    )
    assert made.written.num_kept == 0
    shards = sorted((tmp_path / "out").glob("*.safetensors"))
    assert sum(shard.stat().st_size for shard in shards) > sum(
        t.nbytes * 2 for n, t in tensors.items() if "model/" in n
    )


def test_two_conversions_do_not_write_one_result(save, tmp_path):
    path, _ = save
    temporary = tmp_path / ".out.converting"
    temporary.mkdir()
    with (temporary / "journal.jsonl").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(EmberwardError) as caught:
            checkpoint.export_checkpoint(path, tmp_path / "out", form=Form.DCP, foreign=Foreign())
        assert caught.value.text() == (
            "K113 another conversion writes the same result\n"
            f"  where     {temporary}\n"
            "  expected  one process\n"
            "  found     its journal is locked\n"
            "  next      wait for it, or choose another path"
        )
    checkpoint.export_checkpoint(path, tmp_path / "out", form=Form.DCP, foreign=Foreign())


def test_what_is_there_is_not_replaced(save, tmp_path):
    path, _ = save
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigError, match="K102 the result exists already"):
        checkpoint.export_checkpoint(path, tmp_path / "out", form=Form.DCP, foreign=Foreign())
    with pytest.raises(ConfigError, match="K102 the result exists already"):
        checkpoint.reshape(path, path.parent, num_ranks=4)


def test_memory_is_a_few_tiles_whatever_the_size(tmp_path):
    """120 MB in tensors of 10 MB: far below the promise (2 x the largest + 300 MB), which a small test cannot show."""
    path, _ = make_save(tmp_path, num_ranks=1, rows=500, width=5000, count=4)
    done = child(path, tmp_path / "out", "emberward", 2)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) < 80e6


def test_damage_stops_a_conversion_and_is_named(tmp_path):
    path, _ = make_save(tmp_path, num_ranks=2)
    victim = path / "rank-00001.safetensors"
    data = bytearray(victim.read_bytes())
    data[-100] ^= 1
    victim.write_bytes(data)
    with pytest.raises(EmberwardError) as caught:
        checkpoint.reshape(path, tmp_path / "other", num_ranks=4)
    assert caught.value.code == "K101" and "rank-00001.safetensors tensor" in caught.value.text()
    assert checkpoint.latest(tmp_path / "other") is None


def test_reshaped_to_any_number_of_ranks_it_is_the_same(save, tmp_path):
    path, tensors = save
    digests = {name: entry.digest for name, entry in read_manifest(path).tensors.items()}
    batch = {"first_sample": 0, "num_samples": 2, "tokens": 64.0}
    probe = Probe(step=7, **batch, loss=1.9439, grad_norm=0.5, numerics={"torch": "2.13"})
    write_probe(path, probe)
    for num_ranks in (1, 3, 4, 100):
        made = checkpoint.reshape(path, tmp_path / str(num_ranks), num_ranks=num_ranks).written.path
        manifest = read_manifest(made)
        assert {name: entry.digest for name, entry in manifest.tensors.items()} == digests
        assert (manifest.meta, len(manifest.files)) == ({"num_updates": 7}, min(num_ranks, 64))
        assert verify(made) == ()
        assert read_probe(made) == probe
    assert equal(values(made), tensors) == []
    rounded = checkpoint.reshape(path, tmp_path / "rounded", num_ranks=1, dtype=DType.BF16).written.path
    assert read_probe(rounded) is None
    (path / "probe.json").unlink()


def test_in_another_type_it_is_what_torch_rounds_to(save, tmp_path):
    path, tensors = save
    made = checkpoint.reshape(path, tmp_path, num_ranks=2, dtype=DType.BF16).written.path
    assert verify(made) == ()
    assert equal(values(made), {name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()}) == []


# -- diff and repair ---------------------------------------------------------------------------------------------------


def test_a_difference_is_named_with_its_size_and_place(save, tmp_path):
    path, tensors = save
    changed = {name: tensor.clone() for name, tensor in tensors.items()}
    changed["model/blocks.1.weight"][3, 5] += 0.5
    changed["model/blocks.1.weight"][9, 0] += 0.25
    changed["extra"] = torch.zeros(2)
    changed["model/blocks.2.weight"] = torch.zeros(3, 4)
    del changed["optim/exp_avg/blocks.0.weight"]
    shards = [
        Shard(name=name, global_shape=tuple(t.shape), box=tuple((0, n) for n in t.shape), tensor=t)
        for name, t in changed.items()
    ]
    checkpoint.save(tmp_path, step=7, shards=shards, meta={}, rank=0, world_size=1, agree=alone)
    other = tmp_path / "step-00000007"
    found = checkpoint.diff(path, other, reading=Foreign().reading())
    assert [(difference.name, difference.why) for difference in found.differences] == [
        ("extra", f"only in {other}"),
        ("model/blocks.1.weight", "2 of 12800 elements, by up to 0.5, the first at [3, 5]"),
        ("model/blocks.2.weight", "shape (64, 200) and (3, 4)"),
        ("optim/exp_avg/blocks.0.weight", f"only in {path}"),
    ]
    assert (found.num_equal, found.num_by_digest) == (15, 15)
    assert {finding.code for finding in found.findings()} == {"K115"}
    assert found.findings()[1].message == (
        "tensor model/blocks.1.weight differs: 2 of 12800 elements, by up to 0.5, the first at [3, 5]"
    )


def test_the_look_alike_of_other_pieces_and_another_form_does_not_differ(save, tmp_path):
    path, _ = save
    checkpoint.export_checkpoint(path, tmp_path / "universal", form=Form.UNIVERSAL, foreign=Foreign())
    made = checkpoint.reshape(path, tmp_path / "saves", num_ranks=5).written.path
    for other in (tmp_path / "universal", made):
        assert checkpoint.diff(path, other, reading=Foreign().reading()).differences == ()


def test_damaged_tensors_are_taken_from_another_save_and_no_others(save, tmp_path):
    path, tensors = save
    broken = checkpoint.reshape(path, tmp_path / "broken", num_ranks=2).written.path
    victim = broken / "rank-00000.safetensors"
    data = bytearray(victim.read_bytes())
    data[-1] ^= 0x40
    victim.write_bytes(data)
    done = checkpoint.repair_save(broken, tmp_path / "mended", other=path)
    assert len(done.tensors) == 1
    mended = done.path
    assert mended == tmp_path / "mended" / "step-00000007"
    assert verify(mended) == ()
    assert equal(values(mended), tensors) == []
    assert list(read_manifest(mended).meta["repaired"]) == list(done.tensors)
    with pytest.raises(ConfigError, match="K102 there is nothing to repair"):
        checkpoint.repair_save(mended, tmp_path / "again", other=path)


# -- the door ----------------------------------------------------------------------------------------------------------


def test_a_newcomer_reshapes_from_8_to_4_ranks(save, tmp_path):
    """The commands of docs/convert.md, without torch, and without pydantic: its loading took as long as the copy."""
    path, _ = save
    blocked = without_torch(tmp_path / "blocked")
    (tmp_path / "blocked" / "pydantic.py").write_text("raise ImportError('pydantic is blocked by the test')")
    said = emberward("checkpoint", "reshape", str(path), "reshaped", "--ranks", "4", cwd=tmp_path, **blocked)
    assert said.code == 0, said.err
    last = said.out.splitlines()[-1].split()
    assert last[:3] == ["emberward", "checkpoint", "diff"]
    said = emberward(*last[1:], cwd=tmp_path, **blocked)
    assert said.code == 0
    assert said.out.splitlines() == [
        f"compared {path} with reshaped/step-00000007",
        "18 tensors are equal (18 by their digests), 0 differ",
    ]
    shown = checkpoint.describe(tmp_path / "reshaped" / "step-00000007")
    assert (shown.world_size, len(shown.files)) == (4, 4)


def test_words_that_are_not_plain_are_left_to_typer(tmp_path):
    assert plain_value("7", int, 1) == 7 and plain_value("7", Path, None) == Path("7")
    assert plain_value("dcp", Form, None) is Form.DCP
    for word, kind, least in (
        ("0", int, 1),
        ("x", int, None),
        ("-1", int, None),
        ("zero9", Form, None),
        (["a"], list, 0),
    ):
        assert plain_value(word, kind, least) is None
    said = emberward("checkpoint", "reshape", "save", "out", "--ranks", "0", "--json", cwd=tmp_path)
    assert (said.code, said.document["findings"][0]["code"]) == (2, "C113")
    assert "--ranks" in said.document["findings"][0]["message"]


def test_sizes_are_read_as_people_write_them():
    assert [parse_bytes(text) for text in ("5GB", "500MiB", "1.5 kB", "70")] == [5 * 10**9, 500 << 20, 1500, 70]
    with pytest.raises(ConfigError, match="as 5GB or 500MiB"):
        parse_bytes("big")


def test_a_full_disk_is_an_error_that_leaves_nothing_under_the_result_s_name(save, tmp_path, monkeypatch):
    path, _ = save
    monkeypatch.setattr(os, "fsync", _full)
    with pytest.raises(EmberwardError) as caught:
        checkpoint.export_checkpoint(path, tmp_path / "out", form=Form.UNIVERSAL, foreign=Foreign())
    assert caught.value.code == "K103" and "it goes on where it stopped" in caught.value.text()
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    checkpoint.export_checkpoint(path, tmp_path / "out", form=Form.UNIVERSAL, foreign=Foreign())


def _full(_file):
    raise OSError(28, "No space left on device")


def test_a_real_checkpoint_goes_through_all_forms_and_back(tmp_path):
    real = unpacked(tmp_path / "real") / "zero1"
    steps = [("universal", Form.UNIVERSAL), ("dcp", Form.DCP)]
    at = real
    for name, form in steps:
        checkpoint.export_checkpoint(at, tmp_path / name, form=form, foreign=Foreign())
        at = tmp_path / name
    checkpoint.import_checkpoint(at, tmp_path / "saves", foreign=Foreign())
    found = checkpoint.diff(real, tmp_path / "saves", reading=Foreign().reading())
    assert [difference.name for difference in found.differences if not difference.name.startswith("other/")] == []
    assert json.dumps(found.to_json())

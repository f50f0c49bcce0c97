"""Saves beside the training: what is saved is what was there when it began, and one at a time."""

import os
import threading
from pathlib import Path

import pytest
import torch
from unit.checkpoint.background_ranks import Crew
from unit.checkpoint.checkpoint_ranks import blank, cut, is_bit_equal, random_bits, save_all, spread
from unit.checkpoint.checkpoint_storages import Fault, FaultyStorage, Plan

from emberward.checkpoint import (
    DISK,
    Keep,
    Probe,
    latest,
    load,
    name_save,
    names_of,
    read_manifest,
    read_probe,
    unname_save,
    verify,
    write_probe,
)
from emberward.checkpoint._kept import Candidate, outdated
from emberward.findings import EmberwardError
from emberward.recipe import ReadBack

WHOLE = random_bits(torch.float32, (600, 512), 1)  # 1.2 MiB: two blocks
ALL = ((0, 600), (0, 512))
TOP, BOTTOM = ((0, 300), (0, 512)), ((300, 600), (0, 512))


def halves():
    return [[cut("w", WHOLE, TOP)], [cut("w", WHOLE, BOTTOM)]]


class Gate:
    """A disk that stands still at the first data file until it is opened."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def __getattr__(self, name):
        return getattr(DISK, name)

    def create(self, path: Path):
        if path.suffix == ".safetensors":
            self.reached.set()
            assert self.open.wait(30)
        return DISK.create(path)


def test_what_is_saved_is_what_was_there_when_it_began(tmp_path):
    gate = Gate()
    crew = Crew(tmp_path, 2, storage_of=lambda rank: gate)
    shards = halves()
    begun = crew.begin(shards, step=10, meta={"a": 1})
    assert [each.waited_for for each in begun] == [None, None]
    assert sum(each.staged_bytes for each in begun) == WHOLE.nbytes
    assert gate.reached.wait(30)
    assert [save.poll() for save in crew.saves] == [None, None], "it is under way"
    assert latest(tmp_path) is None, "nothing is whole yet"
    for rank in shards:
        rank[0].tensor.zero_()  # the training goes on
    gate.open.set()
    written = crew.finish()
    assert [each.error for each in written] == [None, None]
    path = latest(tmp_path)
    assert written[0].saved.path == path and verify(path) == () and read_manifest(path).meta == {"a": 1}
    found = blank("w", WHOLE, ALL)
    load(path, [found])
    assert is_bit_equal(found.tensor, WHOLE)
    assert [save.poll() for save in crew.saves] == [None, None], "it is told once"
    crew.close()


def test_the_next_save_waits_for_the_one_in_flight_and_says_so(tmp_path):
    gate = Gate()
    crew = Crew(tmp_path, 1, storage_of=lambda rank: gate)
    crew.begin([[cut("w", WHOLE, ALL)]], step=10)
    assert gate.reached.wait(30)
    opener = threading.Timer(0.05, gate.open.set)
    opener.start()
    (begun,) = crew.begin([[cut("w", WHOLE, ALL)]], step=20)
    opener.join()
    assert begun.waited_for == 10 and begun.waited_s > 0.0
    assert crew.saves[0].poll().step == 10, "how the first one ended is not lost"
    assert crew.finish()[0].step == 20
    (again,) = crew.begin([[cut("w", WHOLE, ALL)]], step=30)
    assert again.waited_for is None, "look-alike: nothing was in flight"
    assert crew.finish()[0].saved.path == latest(tmp_path) == tmp_path / "step-00000030"
    crew.close()


def test_the_copy_is_made_in_the_same_memory_each_time(tmp_path):
    crew = Crew(tmp_path, 1)
    places = set()
    for step in (1, 2, 3):
        crew.begin([[cut("w", WHOLE, ALL)]], step=step)
        crew.finish()
        places.add(tuple(copy.data_ptr() for copy in crew.saves[0]._staging._copies))
    assert len(places) == 1
    crew.begin([[cut("w", WHOLE, TOP)]], step=4)  # another size: new memory, and right all the same
    assert isinstance(crew.finish()[0].error, EmberwardError)  # half a tensor is no save
    crew.close()


def test_a_failed_save_is_told_on_all_ranks_and_the_next_one_passes(tmp_path):
    plan = Plan(Fault.FULL, at=2, rank=1)
    crew = Crew(tmp_path, 2, storage_of=lambda rank: FaultyStorage(plan, rank))
    crew.begin(halves(), step=10)
    first, second = crew.finish()
    assert first.error.code == second.error.code == "K103" and first.saved is second.saved is None
    assert second.error.ranks == (1,)
    crew.begin(halves(), step=20)
    assert [each.error for each in crew.finish()] == [None, None]
    assert verify(latest(tmp_path)) == () and sorted(p.name for p in tmp_path.iterdir()) == [
        ".lock", "latest", "step-00000020",
    ]  # fmt: skip
    crew.close()


class Liar:
    """A disk that takes every byte and keeps one otherwise."""

    def __init__(self, suffix: str = ".safetensors") -> None:
        self.suffix = suffix

    def __getattr__(self, name):
        return getattr(DISK, name)

    def create(self, path: Path):
        file = DISK.create(path)
        return _LyingFile(file, path) if path.suffix == self.suffix else file


class _LyingFile:
    def __init__(self, file, path):
        self._file, self._path = file, path

    def __getattr__(self, name):
        return getattr(self._file, name)

    def close(self):
        self._file.close()
        with self._path.open("r+b") as file:
            file.seek(-9, os.SEEK_END)
            byte = file.read(1)
            file.seek(-9, os.SEEK_END)
            file.write(bytes([byte[0] ^ 4]))


def test_what_reads_back_otherwise_is_no_save(tmp_path):
    save_all(tmp_path, halves(), step=10)
    crew = Crew(tmp_path, 2, storage_of=lambda rank: Liar() if rank == 1 else DISK)
    crew.begin(halves(), step=20)
    error = crew.finish()[1].error
    expected = str(error.expected).removeprefix("CRC-32 ")
    text = str(error).replace(str(tmp_path), "checkpoints")
    assert text == (
        "K105 what rank 1 wrote reads back otherwise\n"
        "  where     checkpoints/.step-00000020.0001.tmp/rank-00001.safetensors tensor w[300:600, 0:512] block 0 of 1\n"
        f"  expected  CRC-32 {expected}\n"
        f"  found     {error.found}\n"
        "  next      test the disk and the memory of the host of rank 1; the saves before this one are untouched"
    )
    assert latest(tmp_path) == tmp_path / "step-00000010" and verify(latest(tmp_path)) == ()
    crew.close()


def test_a_sampled_reading_sees_each_block_in_one_of_sixteen_saves(tmp_path):
    """Twin: without reading back the same lie is written down as a save."""
    found = []
    for step in range(16):
        results = save_all(
            tmp_path / str(step), halves(), step=step, storage_of=lambda rank: Liar(), read_back=ReadBack.SAMPLED
        )
        found.append(any(isinstance(each, EmberwardError) and each.code == "K105" for each in results))
    assert found.count(True) == 1
    save_all(tmp_path / "none", halves(), step=1, storage_of=lambda rank: Liar())
    assert verify(latest(tmp_path / "none")) != ()


def test_which_saves_stay():
    def root(*saves):
        return [
            Candidate(path=Path(f"step-{step}"), step=step, names=names, is_pointed=step == 120)
            for step, *names in saves
        ]

    saves = root((10,), (50,), (60, "before-spike"), (70,), (80,), (100,), (110,), (120,))
    assert [save.step for save in outdated(saves, Keep(last=2, every=50))] == [10, 70, 80]
    assert [save.step for save in outdated(saves, Keep(last=2))] == [10, 50, 70, 80, 100]
    assert outdated(saves, Keep()) == outdated(saves, Keep(every=7)) == []
    rewound = root((120,), (70,), (80,))  # in the order they were made
    assert [save.step for save in outdated(rewound, Keep(last=1))] == [70]
    for bad in ({"last": 0}, {"every": 0}):
        with pytest.raises(ValueError, match="keeping the last"):
            Keep(**bad)


def test_a_save_whose_names_cannot_be_read_stays(tmp_path):
    tensors = {"w": WHOLE[:4, :4].contiguous()}
    for step, written in ((1, b"\xff\xfe"), (2, b""), (3, None)):  # damaged; the last name taken away; never named
        save_all(tmp_path, spread(tensors, 1, step), step=step, keep=1)
        if written is not None:
            (tmp_path / f"step-{step:08d}" / "names").write_bytes(written)
    assert [p.name for p in sorted(tmp_path.glob("step-*"))] == ["step-00000001", "step-00000003"]


def test_a_named_save_stays_until_its_name_is_taken_away(tmp_path):
    tensors = {"w": WHOLE[:4, :4].contiguous()}
    for step in (1, 2, 3):
        save_all(tmp_path, spread(tensors, 1, step), step=step, keep=1)
        if step == 1:
            name_save(tmp_path / "step-00000001", "before-spike-31216")
            name_save(tmp_path / "step-00000001", "b")
    assert names_of(tmp_path / "step-00000001") == ("b", "before-spike-31216")
    assert [p.name for p in sorted(tmp_path.glob("step-*"))] == ["step-00000001", "step-00000003"]
    assert verify(tmp_path / "step-00000001") == ()
    unname_save(tmp_path / "step-00000001", "b")
    unname_save(tmp_path / "step-00000001", "before-spike-31216")
    save_all(tmp_path, spread(tensors, 1, 4), step=4, keep=1)
    assert [p.name for p in sorted(tmp_path.glob("step-*"))] == ["step-00000004"]
    for bad in ("", "A", "../x", "a" * 65, "a\nb"):
        with pytest.raises(ValueError, match="names no save"):
            name_save(tmp_path / "step-00000004", bad)


PROBE = Probe(
    step=10,
    first_sample=80,
    num_samples=8,
    tokens=248.0,
    loss=5.5123456789012345,
    grad_norm=0.25,
    numerics={"torch": "2.13.0"},
)


def test_a_probe_comes_beside_the_save_and_every_flipped_bit_of_it_is_found(tmp_path):
    crew = Crew(tmp_path, 1)
    crew.begin([[cut("w", WHOLE, ALL)]], step=10)
    crew.saves[0].after(lambda: write_probe(tmp_path / "step-00000010", PROBE))
    crew.close()
    path = latest(tmp_path)
    assert read_probe(path) == PROBE and verify(path) == ()
    whole = (path / "probe.json").read_bytes()
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        (path / "probe.json").write_bytes(data)
        with pytest.raises(EmberwardError, match="K101"):
            read_probe(path)
    (finding,) = verify(path)
    assert finding.code == "K101" and finding.site == str(path / "probe.json")
    (path / "probe.json").unlink()
    assert verify(path) == () and read_probe(path) is None, "a save without one is whole"


@pytest.mark.parametrize("at", range(1, 6))
def test_no_failing_write_of_a_probe_harms_the_save_or_the_probe_before(tmp_path, at):
    save_all(tmp_path, halves(), step=10)
    path = latest(tmp_path)
    write_probe(path, PROBE)
    plan = Plan(Fault.TORN, at=at)
    try:
        write_probe(path, PROBE, storage=FaultyStorage(plan))
        assert not plan.hit
    except OSError:
        assert plan.hit
    assert read_probe(path) == PROBE and verify(path) == ()
    write_probe(path, PROBE)
    name_save(path, "again")
    assert sorted(p.name for p in path.iterdir() if p.name.startswith(".")) == []

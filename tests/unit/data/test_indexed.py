"""Megatron's indexed files: written, read, and refused when damaged."""

import importlib.util
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberward.data import IndexedReader, IndexedWriter
from emberward.findings import ConfigError

# Documents, each a list of sequences; an empty sequence and an empty document are legal in the format.
DOCUMENTS = [[[1, 2, 3]], [[4], [], [5, 6]], [], [[7] * 300]]

# Runs in a process of its own: importing megatron.core takes seconds and warns.
MEGATRON = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy, torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
ours, theirs, documents, dtypes = json.loads(sys.stdin.read())
answer = {}
for name in dtypes:
    data = IndexedDataset(f"{ours}/{name}")
    answer[name] = {
        "dtype": numpy.dtype(data.index.dtype).name,
        "sequences": [data[i].tolist() for i in range(len(data))],
        "lengths": data.sequence_lengths.tolist(),
        "documents": data.document_indices.tolist(),
    }
    builder = IndexedDatasetBuilder(f"{theirs}/{name}.bin", dtype=getattr(numpy, name))
    for document in documents:
        for sequence in document:
            builder.add_item(torch.tensor(sequence, dtype=torch.int64))
        builder.end_document()
    builder.finalize(f"{theirs}/{name}.idx")
builder = IndexedDatasetBuilder(f"{theirs}/modes.bin", dtype=numpy.int32, multimodal=True)
builder.add_item(torch.tensor([1, 2]), mode=0)
builder.add_item(torch.tensor([3]), mode=1)
builder.end_document()
builder.finalize(f"{theirs}/modes.idx")
builder = IndexedDatasetBuilder(f"{theirs}/floats.bin", dtype=numpy.float32)
builder.add_item(torch.tensor([1.0]))
builder.end_document()
builder.finalize(f"{theirs}/floats.idx")
print(json.dumps(answer))
"""
DTYPES = ["uint8", "int8", "int16", "int32", "int64", "uint16"]
SMALL = [[[token % 100 for token in sequence] for sequence in document] for document in DOCUMENTS]


def write(prefix: Path, documents, dtype=np.uint16) -> None:
    with IndexedWriter(prefix, dtype) as writer:
        for document in documents:
            for sequence in document:
                writer.add_sequence(np.asarray(sequence, dtype=np.int64))
            writer.end_document()


@pytest.fixture(scope="module")
def megatron(tmp_path_factory):
    """(our folder, megatron's folder, what megatron read of ours): one process for all questions."""
    if importlib.util.find_spec("megatron") is None:
        pytest.skip("megatron-core is not installed")
    ours, theirs = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("theirs")
    for name in DTYPES:
        write(ours / name, SMALL, getattr(np, name))
    done = subprocess.run(
        [sys.executable, "-c", MEGATRON],
        input=json.dumps([str(ours), str(theirs), SMALL, DTYPES]),
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return ours, theirs, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", DTYPES)
def test_megatron_reads_what_we_write(megatron, name):
    _, _, answer = megatron
    sequences = [sequence for document in SMALL for sequence in document]
    assert answer[name] == {
        "dtype": name,
        "sequences": sequences,
        "lengths": [len(sequence) for sequence in sequences],
        "documents": [0, 1, 4, 4, 5],
    }


@pytest.mark.parametrize("name", DTYPES)
def test_megatron_writes_the_same_bytes(megatron, name):
    ours, theirs, _ = megatron
    for suffix in (".bin", ".idx"):
        assert (ours / (name + suffix)).read_bytes() == (theirs / (name + suffix)).read_bytes()


@pytest.mark.parametrize("name", DTYPES)
def test_we_read_what_megatron_writes(megatron, name):
    _, theirs, _ = megatron
    reader = IndexedReader(theirs / name)
    reader.require_whole()
    assert reader.dtype.name == name
    assert [reader.document(index).tolist() for index in range(reader.num_documents)] == [
        [token for sequence in document for token in sequence] for document in SMALL
    ]


def test_modes_of_megatron_are_read(megatron):
    reader = IndexedReader(megatron[1] / "modes")
    assert reader.sequence_modes is not None
    assert reader.sequence_modes.tolist() == [0, 1]
    assert reader.sequence(1).tolist() == [3]


def test_floats_of_megatron_are_refused(megatron):
    with pytest.raises(ConfigError) as caught:
        IndexedReader(megatron[1] / "floats")
    assert caught.value.what == "the file does not hold tokens"
    assert caught.value.found == "type code 7 (float32)"


def test_bytes_are_those_of_the_format(tmp_path):
    write(tmp_path / "a", [[[1, 2, 3]], [[4], [5, 6]]], np.int32)
    assert (tmp_path / "a.bin").read_bytes() == struct.pack("<6i", 1, 2, 3, 4, 5, 6)
    assert (tmp_path / "a.idx").read_bytes() == (
        b"MMIDIDX\x00\x00"
        + struct.pack("<QBQQ", 1, 4, 3, 3)
        + struct.pack("<3i", 3, 1, 2)
        + struct.pack("<3q", 0, 12, 16)
        + struct.pack("<3q", 0, 1, 3)
    )


@settings(deadline=None, max_examples=40)
@given(
    documents=st.lists(st.lists(st.lists(st.integers(0, 65535), max_size=9), max_size=4), max_size=6),
    data=st.data(),
)
def test_any_documents_come_back(tmp_path_factory, documents, data):
    prefix = tmp_path_factory.mktemp("any") / "x"
    write(prefix, documents)
    reader = IndexedReader(prefix)
    reader.require_whole()
    flat = [token for document in documents for sequence in document for token in sequence]
    assert (reader.num_documents, reader.num_tokens) == (len(documents), len(flat))
    assert [reader.document(i).tolist() for i in range(len(documents))] == [
        [token for sequence in document for token in sequence] for document in documents
    ]
    starts = np.cumsum([0] + [sum(map(len, document)) for document in documents])
    assert reader.document_starts().tolist() == starts.tolist()
    start = data.draw(st.integers(0, len(flat)))
    assert reader.tokens(start, start + 5).tolist() == flat[start : start + 5]


def test_nothing_is_left_after_an_exception(tmp_path):
    with pytest.raises(ZeroDivisionError), IndexedWriter(tmp_path / "a", np.uint16) as writer:
        writer.add_document(np.arange(5))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_an_old_pair_stays_whole_until_the_new_one_is(tmp_path):
    write(tmp_path / "a", [[[1, 2]]])
    with IndexedWriter(tmp_path / "a", np.uint16) as writer:
        writer.add_document(np.arange(100))
        assert IndexedReader(tmp_path / "a").tokens(0, 9).tolist() == [1, 2]
    assert IndexedReader(tmp_path / "a").num_tokens == 100


@pytest.mark.parametrize("call", ["replace_bin", "replace_idx"])
def test_a_kill_between_the_renames_never_shows_a_mixed_pair(tmp_path, call):
    write(tmp_path / "a", [[[1, 2]]])
    program = f"""
import os, pathlib, numpy as np
from emberward.data import IndexedWriter
real = pathlib.Path.replace
def replace(self, target):
    if {call!r} == "replace_bin" and str(target).endswith(".bin"): os._exit(9)
    if {call!r} == "replace_idx" and str(target).endswith(".idx"): os._exit(9)
    return real(self, target)
pathlib.Path.replace = replace
with IndexedWriter(pathlib.Path({str(tmp_path / "a")!r}), np.uint16) as writer:
    writer.add_document(np.arange(7))
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 9
    with pytest.raises(ConfigError, match="D101 an indexed file cannot be read"):
        IndexedReader(tmp_path / "a")
    write(tmp_path / "a", [[[3]]])
    assert IndexedReader(tmp_path / "a").tokens(0, 9).tolist() == [3]


def test_tokens_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ValueError, match="tokens from 1 to 65536 do not fit uint16"):
        write(tmp_path / "a", [[[1, 65536]]])
    with pytest.raises(ValueError, match="cannot be stored as float32"):
        IndexedWriter(tmp_path / "a", np.float32)


def test_document_left_open_is_our_mistake(tmp_path):
    with pytest.raises(ValueError, match="not ended"), IndexedWriter(tmp_path / "a", np.uint16) as writer:
        writer.add_sequence(np.arange(3))
    assert list(tmp_path.iterdir()) == []


def refuse(prefix: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        IndexedReader(prefix).require_whole()
    assert caught.value.code == "D101"
    return caught.value


def test_truncated_bin_names_file_and_sizes(tmp_path):
    write(tmp_path / "a", [[[1, 2, 3]]])
    os.truncate(tmp_path / "a.bin", 5)
    assert str(refuse(tmp_path / "a")) == (
        "D101 the token file has another size than its index says\n"
        f"  where     {tmp_path / 'a.bin'}\n"
        "  expected  6 bytes of uint16\n"
        "  found     5 bytes\n"
        "  next      write it anew, or name another prefix"
    )


def test_truncated_idx_names_file_and_sizes(tmp_path):
    write(tmp_path / "a", [[[1, 2, 3]]])
    os.truncate(tmp_path / "a.idx", 60)
    assert str(refuse(tmp_path / "a")) == (
        "D101 the index file has another size than its header says\n"
        f"  where     {tmp_path / 'a.idx'}\n"
        "  expected  62 bytes for 1 sequences and 2 document indices\n"
        "  found     60 bytes\n"
        "  next      write it anew, or name another prefix"
    )


@pytest.mark.parametrize("keep", [0, 5, 20])
def test_idx_cut_within_its_header(tmp_path, keep):
    write(tmp_path / "a", [[[1, 2, 3]]])
    os.truncate(tmp_path / "a.idx", keep)
    error = refuse(tmp_path / "a")
    assert error.where == str(tmp_path / "a.idx")
    assert ("header" in error.what) == (keep == 20)


def test_pair_of_two_different_files(tmp_path):
    write(tmp_path / "a", [[[1, 2, 3]]])
    write(tmp_path / "b", [[[1, 2, 3, 4]]])
    (tmp_path / "a.idx").replace(tmp_path / "b.idx")
    error = refuse(tmp_path / "b")
    assert (error.expected, error.found) == ("6 bytes of uint16", "8 bytes")


@pytest.mark.parametrize(
    ("header", "what"),
    [
        (b"TNTIDX\x00\x00" + b"\0" * 60, "an index of the old fairseq format"),
        (b"PK\x03\x04" + b"\0" * 60, "this is no Megatron index file"),
        (b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 2, 8, 0, 1) + b"\0" * 8, "an unknown version of the index format"),
        (b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 9, 0, 1) + b"\0" * 8, "the file does not hold tokens"),
        (b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 2**62, 2**62), "the index file has another size than its hea"),
        (b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 0, 0), "the document indices do not span the sequences"),
    ],
)
def test_foreign_files_are_refused(tmp_path, header, what):
    (tmp_path / "a.idx").write_bytes(header)
    (tmp_path / "a.bin").write_bytes(b"")
    assert refuse(tmp_path / "a").what.startswith(what)


def test_pointer_that_is_wrong_inside_is_found_by_the_full_check(tmp_path):
    write(tmp_path / "a", [[[1, 2]], [[3]], [[4, 5]]])
    data = bytearray((tmp_path / "a.idx").read_bytes())
    data[34 + 12 + 8 : 34 + 12 + 16] = struct.pack("<q", 2)
    (tmp_path / "a.idx").write_bytes(data)
    IndexedReader(tmp_path / "a")  # the quick check looks at both ends only
    error = refuse(tmp_path / "a")
    assert error.what == "sequence 1 does not begin where the one before it ends"
    assert (error.expected, error.found) == ("byte 4", "byte 2, length 1")


def test_missing_half_names_it(tmp_path):
    write(tmp_path / "a", [[[1, 2]]])
    (tmp_path / "a.bin").unlink()
    assert refuse(tmp_path / "a").where == str(tmp_path / "a.bin")

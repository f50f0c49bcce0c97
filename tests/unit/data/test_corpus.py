"""Bodies of text: what is found, how it is cut, what is held out."""

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberward.data import IndexedWriter
from emberward.data._corpus import FEW_DOCUMENTS, TextCorpus, cut_stream, cut_text, find_corpus, iter_units
from emberward.data._split import MIN_HELD_OUT_BYTES, hold_out
from emberward.findings import ConfigError

TEXTS = st.text(alphabet="ab \n\u00e4\u20ac\U0001f600", max_size=400)


@given(TEXTS, st.integers(1, 60))
def test_blocks_make_up_the_text_and_keep_characters_whole(text, target):
    data = text.encode()
    blocks = list(cut_text(data, target))
    assert b"".join(blocks) == data
    assert all(blocks)
    assert all(len(block) <= 4 * target + 2 for block in blocks)
    assert all(len(block) >= min(target, 4 * target - 3) for block in blocks[:-1])
    for block in blocks:
        block.decode("utf-8")
    assert list(cut_stream(io.BytesIO(data), target)) == blocks


@settings(deadline=None, max_examples=5)
@given(st.integers(200, 3000))
def test_long_streams_are_cut_as_if_read_at_once(line_bytes):
    data = b"".join(b"%d " % number * (line_bytes // 8) + b"\n\n" for number in range(2000))[: 3 << 20]
    assert list(cut_stream(io.BytesIO(data), 10_000)) == list(cut_text(data, 10_000))


def test_blocks_end_at_blank_lines_where_there_are_some():
    data = b"first\n\nsecond\n\nthird\n\n"
    assert list(cut_text(data, 4)) == [b"first\n\n", b"second\n\n", b"third\n\n"]
    assert list(cut_text(b"one\ntwo\nthree\n", 3)) == [b"one\n", b"two\n", b"three\n"]


def sides(count: int, share: float, size: int = 10_000, seed: int = 0) -> np.ndarray:
    hashes = np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)
    return hold_out(hashes=hashes, sizes=np.full(count, size), areas=np.zeros(count, dtype=np.int64), share=share)


def test_share_is_held_out_over_the_whole_range_and_never_the_tail():
    held = sides(20_000, 0.05)
    assert abs(held.mean() - 0.05) < 0.006
    assert np.abs(np.array([part.mean() for part in np.split(held, 20)]) - 0.05).max() < 0.03


@given(st.integers(2, 200), st.integers(0, 1000))
def test_both_sides_have_something(count, seed):
    held = sides(count, 0.05, size=100, seed=seed)
    assert 1 <= held.sum() < count
    assert held.sum() * 100 >= min(MIN_HELD_OUT_BYTES, count * 10) or held.sum() == count - 1


def test_unit_keeps_its_side_when_others_come():
    hashes = np.random.default_rng(1).integers(0, 2**64, 5000, dtype=np.uint64)
    few, many = (
        hold_out(hashes=hashes[:n], sizes=np.full(n, 10_000), areas=np.zeros(n, np.int64), share=0.05)
        for n in (3000, 5000)
    )
    assert np.array_equal(few, many[:3000])


def test_equal_texts_stay_on_one_side():
    hashes = np.array([5, 5, 5, 2**63, 2**63 + 1], dtype=np.uint64)
    held = hold_out(hashes=hashes, sizes=np.full(5, 100), areas=np.zeros(5, np.int64), share=0.05)
    assert held.tolist() == [True, True, True, False, False]
    alike = hold_out(hashes=np.full(3, 5, np.uint64), sizes=np.full(3, 9), areas=np.zeros(3, np.int64), share=0.5)
    assert not alike.any()


def test_nothing_is_held_out_of_nothing():
    assert not sides(100, 0.0).any()
    assert not sides(1, 0.5).any()


def test_each_area_has_a_part():
    hashes = np.random.default_rng(2).integers(2**63, 2**64, 40, dtype=np.uint64)  # none is below the share by itself
    areas = np.repeat(np.arange(4), 10)
    held = hold_out(hashes=hashes, sizes=np.full(40, 4000), areas=areas, share=0.05)
    assert [int(held[areas == area].sum()) for area in range(4)] == [1, 1, 1, 1]


def test_stdlib_is_sources_without_tests():
    corpus = find_corpus("stdlib")
    assert isinstance(corpus, TextCorpus)
    labels = [file.label for file in corpus.files]
    assert len(set(labels)) == len(labels) > 500
    assert {"os.py", "json/decoder.py"} <= set(labels)
    assert not any("/test" in label or label.startswith("test/") or "site-packages" in label for label in labels)
    assert {file.area for file in corpus.files} == {"modules", "packages", "encodings", "network", "tools"}
    assert 5e6 < corpus.size_bytes < 5e7
    assert corpus.block_bytes is None


def test_single_file_is_cut_into_blocks(tmp_path):
    path = tmp_path / "My Text!.txt"
    path.write_text("".join(f"paragraph {number}\n\n" for number in range(5000)))
    corpus = find_corpus(str(path))
    assert corpus.name == "My-Text"
    units = list(iter_units(corpus))
    assert 100 < len(units) < 250
    assert b"".join(unit.data for unit in units) == path.read_bytes()
    assert {unit.document for unit in units} == {0}


def test_folder_reads_text_and_says_what_it_left_out(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.md").write_text("beta")
    (tmp_path / "a.txt").write_text("alpha")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / ".hidden").write_text("hidden")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\x00\x00")
    (tmp_path / "old.txt").write_bytes("\u00e4".encode("latin-1"))
    corpus = find_corpus(str(tmp_path))
    assert [file.label for file in corpus.files] == ["a.txt", "sub/b.md"]
    assert corpus.notes == (
        "left out image.png: a zero byte at 4: a binary file",
        "left out old.txt: not UTF-8 from byte 0 on",
    )


def test_notes_on_left_out_files_are_bounded(tmp_path):
    (tmp_path / "good.txt").write_text("good")
    for number in range(50):
        (tmp_path / f"{number:02}.bin.gz").write_bytes(b"\0")
    notes = find_corpus(str(tmp_path)).notes
    assert len(notes) == 21
    assert notes[-1] == "left out 30 more files that are not text"


def test_rows_of_json_are_documents(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [f"row {number} \u20ac" for number in range(FEW_DOCUMENTS)]
    path.write_text("".join(json.dumps({"text": row, "id": 1}) + "\n\n" for row in [*rows, ""]))
    corpus = find_corpus(str(path))
    assert corpus.block_bytes is None
    units = list(iter_units(corpus))
    assert [unit.data.decode() for unit in units] == rows
    assert [unit.document for unit in units] == list(range(len(rows)))


def test_rows_in_a_folder_are_documents_too(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": f"t{n}"}) + "\n" for n in range(FEW_DOCUMENTS)))
    (tmp_path / "b.txt").write_text("plain")
    units = list(iter_units(find_corpus(str(tmp_path))))
    assert units[0].data == b"t0"
    assert (units[-1].data, units[-1].document) == (b"plain", FEW_DOCUMENTS)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("{", "Expecting property name enclosed in double quotes: line 2 column 1 (char 2)"),
        ("[1]", "a JSON list"),
        ('{"content": "x", "a": 1}', "the keys a, content"),
        ('{"text": null}', '"text" is a NoneType'),
    ],
)
def test_bad_row_is_named_with_its_line(tmp_path, line, found):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "good"}\n' + line + "\n")
    with pytest.raises(ConfigError) as caught:
        list(iter_units(find_corpus(str(path))))
    assert str(caught.value) == (
        "D101 a line does not hold a document\n"
        f"  where     {path}:2\n"
        '  expected  a JSON object with a string "text"\n'
        f"  found     {found}\n"
        "  next      fix or delete the line"
    )


def refuse(path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        find_corpus(str(path))
    assert caught.value.code == "D101"
    return caught.value


def test_missing_path_says_what_was_meant(tmp_path):
    (tmp_path / "shakespeare.txt").write_text("to be")
    assert str(refuse(tmp_path / "shakespear.txt")) == (
        "D101 there is no such text\n"
        f"  where     {tmp_path / 'shakespear.txt'}\n"
        "  expected  stdlib, a text file, a folder, a .jsonl file, or a Megatron prefix\n"
        f"  found     nothing at {tmp_path / 'shakespear.txt'}\n"
        f"  next      did you mean {tmp_path / 'shakespeare.txt'}?"
    )
    assert refuse("stdlb").next == "did you mean stdlib?"
    assert refuse(tmp_path / "no" / "x.txt").found == f"no folder {tmp_path / 'no'}"


def test_file_that_is_no_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\xff")
    error = refuse(path)
    assert (error.what, error.found) == ("the file is not UTF-8 text", "not UTF-8 from byte 4 on")
    path.write_bytes("cut \u20ac".encode()[:-1])
    assert refuse(path).found == "not UTF-8 from byte 4 on"
    path.write_bytes(b"a" * (1 << 20) + b"\xe2\x82")
    assert refuse(path).found == "not UTF-8 from byte 1,048,576 on"
    path.write_bytes("whole \u20ac".encode())
    assert isinstance(find_corpus(str(path)), TextCorpus)


def test_no_text_at_all(tmp_path):
    assert refuse(tmp_path).what == "there is no text to train on"
    (tmp_path / "x").write_bytes(b"\0")
    assert refuse(tmp_path).found == "left out x: a zero byte at 0: a binary file"
    (tmp_path / "empty.txt").write_text("")
    assert refuse(tmp_path / "empty.txt").what == "there is no text to train on"


def test_half_a_pair(tmp_path):
    with IndexedWriter(tmp_path / "a", np.uint16) as writer:
        writer.add_document(np.arange(3))
    for spelling in ("a", "a.bin", "a.idx"):
        assert find_corpus(str(tmp_path / spelling)).prefix == tmp_path / "a"
    (tmp_path / "a.idx").unlink()
    error = refuse(tmp_path / "a")
    assert (error.where, error.found) == (str(tmp_path / "a.idx"), "only a.bin")

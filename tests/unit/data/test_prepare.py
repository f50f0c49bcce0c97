"""Preparing data: manifests, the cache, changed text, two programs at once, full disks."""

import json
import os
import re
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emberward.data import (
    DigestMethod,
    IndexedReader,
    IndexedWriter,
    open_eval,
    open_train,
    prepare,
    read_manifest,
    require_same_data,
    verify_manifest,
)
from emberward.data._manifest import difference, record_file
from emberward.findings import Cause, ConfigError


def prepare_(cache: Path, *paths, held_out=0.1, evaluation=(), progress=None, tokenizer="byte"):
    return prepare(
        train=[path if isinstance(path, tuple) else (str(path), 1.0, None) for path in paths],
        evaluation=list(evaluation),
        tokenizer=tokenizer,
        held_out=held_out,
        cache=cache,
        progress=progress,
    )


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text("".join(f"Paragraph {number} of the book, which is long.\n\n" for number in range(1000)))
    return path


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


def stream_text(manifest, stream) -> bytes:
    """A stream's bytes with | for the end token."""
    reader = IndexedReader(manifest.resolve(stream.prefix))
    tokens = reader.tokens(0, reader.num_tokens)
    return np.where(tokens == 256, ord("|"), tokens).astype(np.uint8).tobytes()


def test_stdlib_gives_text_and_named_sets(cache):
    told = []
    manifest = prepare_(cache, "stdlib", held_out=0.05, progress=lambda label, fraction: told.append((label, fraction)))
    assert [stream.name for stream in manifest.train] == ["stdlib"]
    sets = open_eval(manifest, seq_len=128, max_samples=64)
    assert list(sets) == [
        "stdlib-encodings",
        "stdlib-modules",
        "stdlib-network",
        "stdlib-packages",
        "stdlib-tools",
    ]
    assert {set_.num_samples for set_ in sets.values()} == {64}
    assert manifest.train[0].num_tokens > 10 * sum(stream.num_tokens for stream in manifest.evaluation)
    assert ("reading stdlib", 1.0) in told
    assert ("tokenising stdlib", 1.0) in told
    assert all(0 <= fraction <= 1 for _, fraction in told)
    assert open_train(manifest, seed=1, seq_len=128).windows[0] > 30_000
    verify_manifest(manifest)


def test_no_held_out_document_is_trained_on(cache, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number:03}.txt").write_text(f"<{number}>" * 20)
    manifest = prepare_(cache, folder)
    train, held = (stream_text(manifest, stream) for stream in (manifest.train[0], manifest.evaluation[0]))
    trained, kept = (set(re.findall(rb"<(\d+)>", part)) for part in (train, held))
    assert trained.isdisjoint(kept)
    assert len(trained) + len(kept) == 300
    assert len(kept) > 10
    assert train.count(b"|") == len(trained) == manifest.train[0].num_documents
    # Not the tail: documents from all over are held out.
    assert min(map(int, kept)) < 100 < 200 < max(map(int, kept))


def test_single_file_has_a_held_out_part_and_loses_nothing(cache, text):
    manifest = prepare_(cache, text)
    assert manifest.evaluation[0].name == "book"
    pieces = [stream_text(manifest, stream).split(b"|") for stream in (manifest.train[0], manifest.evaluation[0])]
    assert all(piece[-1] == b"" for piece in pieces)
    numbers = [re.findall(rb"Paragraph (\d+) ", b"".join(piece)) for piece in pieces]
    assert sorted(map(int, numbers[0] + numbers[1])) == list(range(1000))
    assert 50 <= len(numbers[1]) <= 200
    # The end token stands only where the split cut the text: paragraphs within a piece follow each other.
    for piece in pieces[0]:
        run = [int(number) for number in re.findall(rb"Paragraph (\d+) ", piece)]
        assert run == list(range(run[0], run[0] + len(run))) if run else piece == b""
    assert "block of about 256 bytes" in manifest.train[0].split


def test_two_paragraphs_are_enough_and_one_is_not(cache, tmp_path):
    path = tmp_path / "tiny.txt"
    path.write_text("a" * 300 + "\n\n" + "b" * 300)
    manifest = prepare_(cache, path)
    assert {stream_text(manifest, stream).strip(b"\n|")[:1] for stream in (*manifest.train, *manifest.evaluation)} == {
        b"a",
        b"b",
    }
    path.write_text("only one")
    with pytest.raises(ConfigError) as caught:
        prepare_(cache, path)
    assert str(caught.value) == (
        "D101 the text is too short, or too much alike, to hold a part out for evaluation\n"
        f"  where     {path}\n"
        "  expected  at least two documents or blocks that differ\n"
        "  found     1\n"
        "  next      give more text, or set data.held_out=0"
    )
    manifest = prepare_(cache, path, held_out=0.0)
    assert manifest.evaluation == ()
    assert stream_text(manifest, manifest.train[0]) == b"only one|"


def test_same_text_is_prepared_once(cache, text):
    first = prepare_(cache, text)
    stamps = {path: path.stat().st_mtime_ns for path in cache.rglob("*.bin")}
    second = prepare_(cache, text)
    assert second == first
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.bin")} == stamps


def test_changed_text_never_mixes(cache, text):
    before = prepare_(cache, text)
    text.write_text(text.read_text().replace("Paragraph 500", "Paragraph five hundred"))
    now = prepare_(cache, text)
    assert now.train_digest != before.train_digest
    assert now.train[0].prefix != before.train[0].prefix
    verify_manifest(before)
    with pytest.raises(ConfigError) as caught:
        require_same_data(before=before, now=now)
    old, new = (m.train[0] for m in (before, now))
    digests = [" ".join(record.sha256[:12] for record in stream.files) for stream in (old, new)]
    assert str(caught.value) == (
        "D102 source book is not what it was; going on would mix two kinds of data in one run\n"
        f"  where     {now.path}\n"
        f"  expected  {old.num_tokens:,} tokens, weight 1, sha256 {digests[0]}\n"
        f"  found     {new.num_tokens:,} tokens, weight 1, sha256 {digests[1]}\n"
        "  next      give the old data back, or start a new run"
    )
    assert caught.value.cause is Cause.BAD_DATA


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"held_out": 0.2}, "source book is not what it was"),
        ({"more": True}, "the training sources are others"),
    ],
)
def test_other_settings_are_other_data(cache, text, arguments, what):
    before = prepare_(cache, text)
    source = (str(text), arguments.get("weight", 1.0), None)
    now = prepare_(cache, *[source] * (2 if "more" in arguments else 1), held_out=arguments.get("held_out", 0.1))
    with pytest.raises(ConfigError, match=f"D102 {what}"):
        require_same_data(before=before, now=now)


def test_another_share_is_other_data_and_another_scale_is_not(cache, text, tmp_path):
    (tmp_path / "second.txt").write_text("Words.\n\n" * 50 + "More.\n\n" * 50)
    second = str(tmp_path / "second.txt")
    before = prepare_(cache, (str(text), 0.7, None), (second, 0.3, None))
    require_same_data(before=before, now=prepare_(cache, (str(text), 7, None), (second, 3, None)))
    with pytest.raises(ConfigError, match="D102 source book is not what it was") as caught:
        require_same_data(before=before, now=prepare_(cache, (str(text), 0.6, None), (second, 0.3, None)))
    assert "weight 0.7" in (caught.value.expected or "")
    assert "weight 0.6" in (caught.value.found or "")


def test_same_data_at_another_place_is_the_same(cache, text, tmp_path):
    """Look-alikes: text and cache lie elsewhere; the source has another name; another evaluation set is asked for."""
    other = tmp_path / "other" / "book.txt"
    other.parent.mkdir()
    other.write_bytes(text.read_bytes())
    before, now = prepare_(cache, text), prepare_(tmp_path / "cache2", other)
    assert now.digest == before.digest
    require_same_data(before=before, now=now)
    renamed = prepare_(cache, (str(text), 1.0, "novel"))
    assert (renamed.train[0].name, renamed.evaluation[0].name) == ("novel", "novel")
    require_same_data(before=before, now=renamed)
    other.with_name("set.txt").write_text("evaluate this")
    with_set = prepare_(cache, text, evaluation=[(str(other.with_name("set.txt")), 1.0, None)])
    assert with_set.digest != before.digest
    require_same_data(before=before, now=with_set)


def test_manifest_comes_back_from_its_file(cache, text, tmp_path):
    manifest = prepare_(cache, text)
    assert read_manifest(manifest.path) == manifest
    copy = tmp_path / "run" / "data.json"
    copy.parent.mkdir()
    copy.write_bytes(manifest.path.read_bytes())
    assert (
        open_train(read_manifest(copy), seed=1, seq_len=16).windows == open_train(manifest, seed=1, seq_len=16).windows
    )
    data = json.loads(copy.read_text())
    assert data["versions"].keys() == {"emberward", "python", "numpy"}
    assert data["train"][0]["files"][0]["sha256"]


@pytest.mark.parametrize(
    ("change", "code", "what"),
    [
        (lambda data: data.update(schema=9), "D101", "the data manifest has an unknown schema"),
        (lambda data: data["train"][0].pop("name"), "D101", "the data manifest cannot be read"),
        (lambda data: data["train"][0].update(num_tokens=3), "D102", "the data manifest was changed by hand"),
    ],
)
def test_manifest_that_is_wrong(cache, text, change, code, what):
    manifest = prepare_(cache, text)
    data = json.loads(manifest.path.read_text())
    change(data)
    manifest.path.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match=f"{code} {what}"):
        read_manifest(manifest.path)


def test_manifest_that_is_cut_or_gone(cache, text):
    manifest = prepare_(cache, text)
    os.truncate(manifest.path, 100)
    with pytest.raises(ConfigError, match="D101 the data manifest cannot be read"):
        read_manifest(manifest.path)
    with pytest.raises(ConfigError, match="D101 the data manifest cannot be read"):
        read_manifest(cache / "none.json")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_one_flipped_bit_is_found_and_repaired(cache, text):
    manifest = prepare_(cache, text)
    path = manifest.resolve(manifest.train[0].prefix + ".bin")
    good = path.read_bytes()
    flip(path)
    with pytest.raises(ConfigError) as caught:
        verify_manifest(manifest)
    record = manifest.train[0].files[0]
    assert caught.value.expected == f"sha256 {record.sha256}"
    assert str(caught.value) == (
        "D102 a data file changed since it was prepared\n"
        f"  where     {path}\n"
        f"  expected  sha256 {record.sha256}\n"
        f"  found     {caught.value.found}\n"
        "  next      give the old file back, or start a new run, which prepares the data anew"
    )
    assert prepare_(cache, text) == manifest
    assert path.read_bytes() == good
    verify_manifest(manifest)


def test_missing_or_short_file_is_found_and_repaired(cache, text):
    manifest = prepare_(cache, text)
    path = manifest.resolve(manifest.train[0].prefix + ".bin")
    size = path.stat().st_size
    os.truncate(path, size - 2)
    with pytest.raises(ConfigError) as caught:
        verify_manifest(manifest)
    assert (caught.value.expected, caught.value.found) == (f"{size:,} bytes", f"{size - 2:,} bytes")
    with pytest.raises(ConfigError, match="D101 the token file has another size than its index says"):
        open_train(manifest, seed=1, seq_len=16)
    path.unlink()
    with pytest.raises(ConfigError, match="D102 a data file changed since it was prepared"):
        verify_manifest(manifest)
    assert prepare_(cache, text) == manifest
    verify_manifest(manifest)


PREPARE = """
import pathlib, sys
from emberward.data import prepare
sys.stdin.readline()
manifest = prepare(train=[(sys.argv[1], 1.0, None)], evaluation=[], tokenizer="byte", held_out=0.1,
                   cache=pathlib.Path(sys.argv[2]), progress=None)
print(manifest.digest)
"""


def test_two_programs_prepare_at_once(cache, text):
    text.write_text(text.read_text() * 50)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PREPARE, str(text), str(cache)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0, 0, 0], answers
    assert len({out for out, _ in answers}) == 1
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 1
    verify_manifest(prepare_(cache, text))


def test_what_a_killed_program_left_is_swept_and_not_believed(cache, text):
    program = PREPARE.replace("sys.stdin.readline()", "").replace(
        "manifest =", "import os; pathlib.Path.rename = lambda *_: os._exit(9); manifest ="
    )
    assert subprocess.run([sys.executable, "-c", program, str(text), str(cache)], timeout=60).returncode == 9
    left = list(cache.iterdir())
    assert len(left) == 1
    assert ".tmp-" in left[0].name
    manifest = prepare_(cache, text)
    assert not left[0].exists()
    verify_manifest(manifest)


def test_folder_of_a_program_that_lives_is_not_swept(cache, text):
    """Look-alike: another program of this host is in the middle of preparing."""
    cache.mkdir()
    alive = cache / f"text-0123abcd.tmp-{socket.gethostname()}-{os.getpid()}-01234567"
    alive.mkdir()
    foreign = cache / "text-0123abcd.tmp-elsewhere-1-01234567"
    foreign.mkdir()
    prepare_(cache, text)
    assert alive.exists()
    assert foreign.exists()
    os.utime(foreign, (0, 0))
    text.write_text("other\n\n" + text.read_text())
    prepare_(cache, text)
    assert not foreign.exists()


def test_disk_that_takes_no_more(cache, text):
    program = PREPARE.replace(
        "sys.stdin.readline()", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(text), str(cache)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "D104 the prepared data cannot be written\n" in done.stderr
    assert f"  where     {cache}\n" in done.stderr
    assert "  found     File too large\n" in done.stderr
    assert list(cache.iterdir()) == []


def test_cache_that_is_a_file(cache, text):
    cache.write_text("")
    with pytest.raises(ConfigError) as caught:
        prepare_(cache, text)
    assert str(caught.value) == (
        "D104 the prepared data cannot be written\n"
        f"  where     {cache}\n"
        "  expected  a folder with room for 2 to 4 bytes a token\n"
        "  found     File exists\n"
        "  next      free some space, or name another folder with data.cache=DIR"
    )


def test_text_that_changes_meanwhile(cache, text):
    def change(label, fraction):
        if label.startswith("reading"):
            text.write_text(text.read_text().replace("long", "l0ng"))

    with pytest.raises(ConfigError, match="D102 the text changed while it was being prepared"):
        prepare_(cache, text, progress=change)
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_names_are_unique(cache, text, tmp_path):
    other = tmp_path / "more" / "book.txt"
    other.parent.mkdir()
    other.write_text("Other words.\n\n" * 100 + "End.\n\n" * 100)
    manifest = prepare_(cache, text, other)
    assert [stream.name for stream in manifest.train] == ["book", "book-2"]
    assert [stream.name for stream in manifest.evaluation] == ["book", "book-2"]
    with pytest.raises(ConfigError, match="C103 two data sources are called x"):
        prepare_(cache, (str(text), 1.0, "x"), (str(other), 1.0, "x"))


def test_given_sets_are_whole_and_a_trained_one_is_its_held_out_part(cache, text, tmp_path):
    other = tmp_path / "set.txt"
    other.write_text("just a line")
    manifest = prepare_(cache, text, evaluation=[(str(other), 1.0, None), (str(text), 1.0, "seen")])
    assert [stream.name for stream in manifest.evaluation] == ["set", "seen"]
    assert stream_text(manifest, manifest.evaluation[0]) == b"just a line|"
    assert manifest.evaluation[1].prefix.endswith("held_out")
    assert manifest.notes == (f"{text}: also trained on, so only its held-out part is evaluated",)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"train": []}, "there is no training source"),
        ({"held_out": 0.6}, "the held-out share is out of range"),
        ({"held_out": -0.1}, "the held-out share is out of range"),
        ({"held_out": float("nan")}, "the held-out share is out of range"),
        ({"train": [("x", 0.0, None)]}, "the weight of a source must be a positive number"),
    ],
)
def test_arguments_that_make_no_data(cache, arguments, what):
    with pytest.raises(ConfigError, match=f"C103 {what}"):
        prepare(
            **{"train": [("stdlib", 1.0, None)], "evaluation": [], "tokenizer": "byte", "held_out": 0.1, **arguments},
            cache=cache,
            progress=None,
        )


@pytest.fixture
def pair(tmp_path) -> Path:
    with IndexedWriter(tmp_path / "pair", np.uint16) as writer:
        for number in range(400):
            writer.add_document(np.array([number % 200, 201, 202, 256]))
    return tmp_path / "pair"


def test_megatron_pair_is_used_where_it_lies(cache, pair):
    manifest = prepare_(cache, pair, held_out=0.0)
    assert manifest.train[0].prefix == str(pair)
    assert manifest.train[0].num_tokens == 1600
    assert not list(cache.rglob("*.bin"))
    verify_manifest(manifest)
    flip(pair.with_name("pair.bin"))
    with pytest.raises(ConfigError, match="D102 a data file changed since it was prepared"):
        verify_manifest(manifest)


def test_part_of_a_megatron_pair_is_held_out_by_document(cache, pair):
    manifest = prepare_(cache, pair)
    assert prepare_(cache, pair) == manifest
    documents = []
    for stream in (manifest.train[0], manifest.evaluation[0]):
        assert stream.num_tokens == 4 * stream.num_documents
        set_ = open_eval(
            # The training part read as a set, so that both are read window by window to the end.
            manifest if stream in manifest.evaluation else _as_set(manifest),
            seq_len=7,
            max_samples=10**6,
        )["pair"]
        batch = set_.batch(range(set_.num_samples))
        flat = np.append(batch.tokens[0, 0], batch.tokens[:, 1:][batch.mask == 1]).reshape(-1, 4)
        assert (flat[:, 1:] == [201, 202, 256]).all()
        documents.append(len(flat))
    assert sum(documents) == 400
    assert 20 <= documents[1] <= 80


def _as_set(manifest):
    return replace(manifest, evaluation=manifest.train)


def test_pair_of_another_tokenizer(cache, tmp_path):
    with IndexedWriter(tmp_path / "pair", np.uint16) as writer:
        writer.add_document(np.array([1, 2, 50256]))
    with pytest.raises(ConfigError) as caught:
        prepare_(cache, tmp_path / "pair", held_out=0.0)
    assert str(caught.value) == (
        "D101 the pair was made with another tokenizer\n"
        f"  where     {tmp_path / 'pair.bin'}\n"
        "  expected  tokens from 0 to 256 of tokenizer byte\n"
        "  found     token 50,256 at place 2\n"
        "  next      set data.tokenizer to the tokenizer.json that the pair was made with"
    )


def test_pair_with_sequences_that_are_no_text(cache, pair):
    idx = pair.with_name("pair.idx")
    idx.write_bytes(idx.read_bytes() + b"\0" * 399 + b"\1")
    with pytest.raises(ConfigError, match="D101 the pair holds sequences that are not text"):
        prepare_(cache, pair)
    data = idx.read_bytes()
    idx.write_bytes(data[:-1] + b"\0")
    assert prepare_(cache, pair).train[0].num_documents > 300


def test_files_over_a_gibibyte_are_hashed_in_part(tmp_path):
    """A sparse file, so nothing is written; an edit at either end or of the size is seen."""
    path = tmp_path / "large.bin"
    size = (1 << 30) + 7
    with path.open("wb") as stream:
        stream.truncate(size)
    record = record_file(tmp_path, "large.bin")
    assert record.method is DigestMethod.SAMPLED
    assert difference(tmp_path, record) is None
    for place in (0, size - 1):
        with path.open("r+b") as stream:
            stream.seek(place)
            stream.write(b"x")
        expected, found = difference(tmp_path, record)
        assert (expected, found[:15]) == (f"sha256-sampled {record.sha256}", "sha256-sampled ")
        with path.open("r+b") as stream:
            stream.seek(place)
            stream.write(b"\0")
        assert difference(tmp_path, record) is None
    os.truncate(path, size - 1)
    assert difference(tmp_path, record) == ("1,073,741,831 bytes", "1,073,741,830 bytes")


def test_huggingface_tokenizer_end_to_end(cache, text, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"<unk>": 0, "Paragraph": 1, "book": 2, "</s>": 3}, unk_token="<unk>")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    path = tmp_path / "tokenizer.json"
    words.save(str(path))
    manifest = prepare_(cache, text, tokenizer=str(path))
    assert manifest.tokenizer.size == 4
    assert "tokenizers" in manifest.versions
    reader = IndexedReader(manifest.resolve(manifest.train[0].prefix))
    tokens = reader.tokens(0, reader.num_tokens)
    assert np.count_nonzero(tokens == 3) == reader.num_documents
    assert np.count_nonzero(tokens == 1) == np.count_nonzero(tokens == 2)
    verify_manifest(manifest)
    words.add_tokens(["which"])
    words.save(str(path))
    with pytest.raises(ConfigError, match="D102 a data file changed since it was prepared"):
        verify_manifest(manifest)
    with pytest.raises(ConfigError, match="D102 the tokenizer is another one"):
        require_same_data(before=manifest, now=prepare_(cache, text, tokenizer=str(path)))

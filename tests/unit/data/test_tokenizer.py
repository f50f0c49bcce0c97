"""Tokenizers: bytes and Hugging Face files."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberward.data import ByteTokenizer, TokenizerKind, open_tokenizer
from emberward.findings import ConfigError


@pytest.fixture
def word_file(tmp_path: Path) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"<unk>": 0, "def": 1, "return": 2, "x": 3, "</s>": 4}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<pad>"])
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@given(st.text())
def test_bytes_come_back_as_the_text(text):
    tokenizer = ByteTokenizer()
    ids = tokenizer.encode(text)
    assert ids.dtype == np.uint16
    assert ids.tolist() == list(text.encode())
    assert tokenizer.decode(ids) == text


def test_byte_tokenizer_leaves_out_what_is_no_byte():
    tokenizer = open_tokenizer("byte")
    assert (tokenizer.size, tokenizer.eod) == (257, 256)
    assert tokenizer.decode([104, 105, 256, 300, 255]) == "hi\ufffd"


def test_huggingface_file_is_read(word_file):
    tokenizer = open_tokenizer(str(word_file))
    assert (tokenizer.size, tokenizer.eod) == (6, 4)
    assert tokenizer.encode("def x nope").tolist() == [1, 3, 0]
    assert [ids.tolist() for ids in tokenizer.encode_batch(["return x", ""])] == [[2, 3], []]
    assert tokenizer.decode([1, 3, 4, 5, 99]) == "def x"
    identity = tokenizer.identity
    assert identity.kind is TokenizerKind.HUGGING_FACE
    assert identity.sha256 is not None
    assert open_tokenizer(str(word_file.parent)).identity == identity


def test_identity_does_not_depend_on_the_place(word_file, tmp_path):
    other = tmp_path / "elsewhere" / "tokenizer.json"
    other.parent.mkdir()
    other.write_bytes(word_file.read_bytes())
    ours, theirs = open_tokenizer(str(word_file)).identity, open_tokenizer(str(other)).identity
    assert ours != theirs
    assert ours.content() == theirs.content()


def test_truncation_in_the_file_does_not_lose_text(word_file):
    tokenizers = pytest.importorskip("tokenizers")
    inner = tokenizers.Tokenizer.from_file(str(word_file))
    inner.enable_truncation(2)
    inner.enable_padding(length=8)
    inner.save(str(word_file))
    assert open_tokenizer(str(word_file)).encode("x x x x").tolist() == [3, 3, 3, 3]


def test_missing_package_names_the_extra(word_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError) as caught:
        open_tokenizer(str(word_file))
    assert str(caught.value) == (
        "D101 reading this tokenizer needs a package that is not installed\n"
        f"  where     {word_file}\n"
        "  expected  the package 'tokenizers'\n"
        "  found     import of tokenizers halted; None in sys.modules\n"
        "  next      pip install 'emberward[hf]', or use tokenizer=byte"
    )
    assert open_tokenizer("byte").size == 257


def test_unknown_name_says_what_was_meant():
    with pytest.raises(ConfigError) as caught:
        open_tokenizer("bytes")
    assert str(caught.value) == (
        "D101 there is no such tokenizer\n"
        "  where     tokenizer=bytes\n"
        "  expected  byte, or the path of a Hugging Face tokenizer.json\n"
        "  found     no file bytes\n"
        "  next      did you mean tokenizer=byte?"
    )


def test_file_that_is_no_tokenizer(tmp_path):
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ConfigError, match="D101 the tokenizer file cannot be read") as caught:
        open_tokenizer(str(path))
    assert caught.value.where == str(path)


def test_tokenizer_without_an_end_token(word_file):
    data = json.loads(word_file.read_text())
    data["model"]["vocab"] = {"<unk>": 0, "def": 1}
    word_file.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="D101 the tokenizer has no token that ends a document"):
        open_tokenizer(str(word_file))

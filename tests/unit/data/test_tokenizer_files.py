"""transformers.AutoTokenizer loads what we write, gives the training's ids and the text back."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberward.data import ByteTokenizer, hugging_face_files, open_tokenizer

transformers = pytest.importorskip("transformers")

TEXTS = (
    "",
    "def f(x):\n\treturn x  # two  spaces\r\n",
    "naïve café 漢字 🎉 \u00ad\u200b\x00\x7f",
    "a special token as text: <|endoftext|> stays text",
    "don't , . ! tidy",
    "   leading and trailing   ",
)


def load(folder: Path, tokenizer):
    for name, data in hugging_face_files(tokenizer).items():
        (folder / name).write_bytes(data)
    # A model's config.json beside it must not choose another class.
    (folder / "config.json").write_text(json.dumps({"model_type": "bloom"}))
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def bytes_of_theirs(tmp_path_factory):
    return load(tmp_path_factory.mktemp("byte"), ByteTokenizer())


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_have_the_training_ids_and_come_back(bytes_of_theirs, text):
    ids = bytes_of_theirs(text)["input_ids"]
    assert ids == ByteTokenizer().encode(text).tolist()
    assert bytes_of_theirs.decode(ids) == text


@settings(deadline=None, max_examples=200)
@given(text=st.text())
def test_any_text_has_the_training_ids_and_comes_back(bytes_of_theirs, text):
    text = text.encode("utf-8", errors="ignore").decode()
    ids = bytes_of_theirs(text)["input_ids"]
    assert ids == ByteTokenizer().encode(text).tolist()
    assert bytes_of_theirs.decode(ids) == text


def test_the_end_of_a_document_is_the_training_one(bytes_of_theirs):
    eod = ByteTokenizer().eod
    assert (bytes_of_theirs.eos_token_id, bytes_of_theirs.pad_token_id, len(bytes_of_theirs)) == (eod, eod, eod + 1)
    assert bytes_of_theirs.decode([104, 105, eod], skip_special_tokens=True) == "hi"
    assert bytes_of_theirs.decode([0xFF, 104]) == ByteTokenizer().decode([0xFF, 104])


@pytest.fixture
def trained(tmp_path) -> Path:
    """A small tokenizer of Hugging Face's with its files in a folder."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["some text to learn from"] * 20, trainer)
    folder = tmp_path / "theirs"
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("has_config", [True, False])
def test_a_hugging_face_tokenizer_goes_over_with_its_own_files(trained, tmp_path, has_config):
    if has_config:
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "model_max_length": 77}
        (trained / "tokenizer_config.json").write_text(json.dumps(config))
        (trained / "chat_template.jinja").write_text("{{ messages }}")
    (trained / "model.safetensors").write_text("not a tokenizer's")
    ours = open_tokenizer(str(trained))
    (tmp_path / "out").mkdir()
    theirs = load(tmp_path / "out", ours)
    for text in TEXTS[1:]:
        if "<|" not in text:  # whether special tokens are cut out of a text is for the tokenizer's own configuration
            assert theirs(text)["input_ids"] == ours.encode(text).tolist()
    assert theirs.eos_token_id == ours.eod
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()
    assert not (tmp_path / "out" / "model.safetensors").exists()
    assert (theirs.model_max_length == 77) is has_config
    assert (tmp_path / "out" / "chat_template.jinja").exists() is has_config

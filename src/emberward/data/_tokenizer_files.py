"""A tokenizer as a Hugging Face folder has it: files that ``transformers.AutoTokenizer`` loads, with the same ids.

Form: tokenizers 0.23 (``tokenizer.json``), transformers 5.23 (``tokenizer_config.json``). Bytes become characters as in
GPT-2's ``encoder.py`` (``bytes_to_unicode``): printable Latin-1 stands for itself, the rest for U+0100 and up.
"""

import json
from itertools import count
from pathlib import Path

from emberward.data._tokenizer import EOD_NAMES, TOKENIZER_FILE, ByteTokenizer, HuggingFaceTokenizer

CONFIG_FILE = "tokenizer_config.json"
_KEPT = (
    CONFIG_FILE,
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
    "spiece.model",
    "chat_template.jinja",
)
"""What transformers may keep beside ``tokenizer.json`` (tokenization_utils_base.py, and the slow tokenizers' files)."""


def hugging_face_files(tokenizer: ByteTokenizer | HuggingFaceTokenizer) -> dict[str, bytes]:
    """File names and contents. A Hugging Face tokenizer's own files are taken as they are; reads them."""
    if isinstance(tokenizer, ByteTokenizer):
        return {TOKENIZER_FILE: _json(_byte_tokenizer(tokenizer.eod)), CONFIG_FILE: _json(_config(EOD_NAMES[0]))}
    path = Path(tokenizer.identity.name)
    files = {name: (path.parent / name).read_bytes() for name in _KEPT if (path.parent / name).is_file()}
    return {TOKENIZER_FILE: path.read_bytes(), CONFIG_FILE: _json(_config(tokenizer.eod_name)), **files}


def _json(body: dict[str, object]) -> bytes:
    return (json.dumps(body, indent=2, ensure_ascii=False) + "\n").encode()


def _config(eod_name: str) -> dict[str, object]:
    """The configuration of a tokenizer that has none of its own.

    Training cuts no special token out of a text, and takes nothing away between words: neither does this.
    """
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": eod_name,
        "eos_token": eod_name,
        "pad_token": eod_name,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
    }


def _byte_tokenizer(eod: int) -> dict[str, object]:
    """A tokenizer whose ids below 256 are the bytes of the UTF-8 text: pairs are never merged."""
    vocabulary = {character: byte for byte, character in enumerate(_characters())}
    end = {"id": eod, "content": EOD_NAMES[0], "special": True, "normalized": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**end, "single_word": False, "lstrip": False, "rstrip": False}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "fuse_unk": False, "byte_fallback": False},
    }


def _characters() -> list[str]:
    """The character that stands for each byte."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = count(256)
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]

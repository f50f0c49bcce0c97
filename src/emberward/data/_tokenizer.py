"""Tokenizers: text to numbers and back."""

import hashlib
import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from emberward.files import anew
from emberward.findings import ConfigError

Tokens = NDArray[np.generic]
BYTE_NAME = "byte"
TOKENIZER_FILE = "tokenizer.json"
# Names under which published tokenizers keep their end-of-document token, in the order we look for them: GPT-2 and
# GPT-NeoX, Llama 3, Llama 2 and BLOOM, Gemma, Qwen and ChatML, BERT.
EOD_NAMES = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>", "[SEP]")


class TokenizerKind(StrEnum):
    """Where a tokenizer comes from."""

    BYTE = "byte"
    HUGGING_FACE = "hugging_face"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerIdentity:
    """What makes two tokenizers the same: everything but the place of the file.

    `name` is what `open_tokenizer` takes; it is no part of `content`. `sha256` is of the tokenizer.json, None for
    bytes. `size` is one more than the largest token id.
    """

    name: str
    kind: TokenizerKind
    size: int
    eod: int
    sha256: str | None = None

    def content(self) -> dict[str, object]:
        """The part that counts for a digest: no path in it."""
        return {"kind": self.kind.value, "size": self.size, "eod": self.eod, "sha256": self.sha256}


class Tokenizer(Protocol):
    """Text to token ids and back. `eod` is the id that ends each document; encode never adds it."""

    @property
    def identity(self) -> TokenizerIdentity:
        """What to record, so that data made by another tokenizer is never mixed in."""
        ...

    @property
    def size(self) -> int:
        """One more than the largest token id."""
        ...

    @property
    def eod(self) -> int:
        """The id of the end-of-document token."""
        ...

    def encode(self, text: str) -> Tokens:
        """Token ids of `text`, 1-D, of the type `token_dtype(size)`."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[Tokens]:
        """`encode` of each text; may use several cores."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`. End-of-document tokens and ids past the vocabulary are left out."""
        ...


def token_dtype(size: int) -> type[np.uint16] | type[np.int32]:
    """The number type in which tokens of a vocabulary of `size` are stored.

    As megatron-core 0.16.1 `DType.optimal_dtype`: uint16 below 65,500, else int32.
    """
    return np.uint16 if size < 65500 else np.int32


class ByteTokenizer:
    """Each byte of the UTF-8 text is one token; token 256 ends a document."""

    size = 257
    eod = 256

    @property
    def identity(self) -> TokenizerIdentity:
        """What to record; the same on every machine."""
        return TokenizerIdentity(name=BYTE_NAME, kind=TokenizerKind.BYTE, size=self.size, eod=self.eod)

    def encode(self, text: str) -> Tokens:
        """The UTF-8 bytes of `text` as uint16."""
        return np.frombuffer(text.encode("utf-8"), dtype=np.uint8).astype(np.uint16)

    def encode_batch(self, texts: Sequence[str]) -> list[Tokens]:
        """`encode` of each text."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids below 256; bytes that are not UTF-8 become U+FFFD, as a model may write any byte."""
        return bytes(int(token) for token in ids if 0 <= int(token) < 256).decode("utf-8", errors="replace")


class HuggingFaceTokenizer:
    """A tokenizer.json file, read by the package `tokenizers`. Special tokens are never added by encode."""

    def __init__(self, path: Path) -> None:
        library = _import_tokenizers(path)
        data = anew(path.read_bytes)
        try:
            inner = library.Tokenizer.from_buffer(data)
        except Exception as error:  # the package raises a bare Exception for a file it cannot parse
            raise ConfigError(
                "the tokenizer file cannot be read",
                code="D101",
                where=str(path),
                expected="a Hugging Face tokenizer.json",
                found=str(error),
                next="save it anew with tokenizer.save(...) or use tokenizer=byte",
            ) from error
        inner.no_truncation()
        inner.no_padding()
        self._inner: Any = inner
        vocabulary: dict[str, int] = inner.get_vocab(with_added_tokens=True)
        self.size = max(vocabulary.values(), default=-1) + 1
        self.eod = _find_eod(vocabulary, path)
        self.eod_name = str(inner.id_to_token(self.eod))
        self._dtype = token_dtype(self.size)
        self._identity = TokenizerIdentity(
            name=str(path),
            kind=TokenizerKind.HUGGING_FACE,
            size=self.size,
            eod=self.eod,
            sha256=hashlib.sha256(data).hexdigest(),
        )

    @property
    def identity(self) -> TokenizerIdentity:
        """What to record: the digest of the file, its size and its end token."""
        return self._identity

    def encode(self, text: str) -> Tokens:
        """Token ids of `text`."""
        return np.asarray(self._inner.encode(text, add_special_tokens=False).ids, dtype=self._dtype)

    def encode_batch(self, texts: Sequence[str]) -> list[Tokens]:
        """`encode` of each text, on the package's own threads (it never forks)."""
        encodings = self._inner.encode_batch(list(texts), add_special_tokens=False)
        return [np.asarray(encoding.ids, dtype=self._dtype) for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`; special tokens and ids past the vocabulary are left out."""
        known = [int(token) for token in ids if 0 <= int(token) < self.size and int(token) != self.eod]
        return str(self._inner.decode(known, skip_special_tokens=True))


def open_tokenizer(name: str) -> ByteTokenizer | HuggingFaceTokenizer:
    """The tokenizer called `name`: ``byte``, or the path of a tokenizer.json or of a folder that holds one.

    Raises D101 when there is none, or when the package `tokenizers` is needed and not installed.
    """
    if name == BYTE_NAME:
        return ByteTokenizer()
    path = Path(name).expanduser()
    if path.is_dir():
        path = path / TOKENIZER_FILE
    if not path.is_file():
        close = get_close_matches(name.lower(), [BYTE_NAME, "bytes", "byte-level"], n=1, cutoff=0.7)
        raise ConfigError(
            "there is no such tokenizer",
            code="D101",
            where=f"tokenizer={name}",
            expected="byte, or the path of a Hugging Face tokenizer.json",
            found=f"no file {path}",
            next="did you mean tokenizer=byte?" if close else "check the path, or use tokenizer=byte",
        )
    return HuggingFaceTokenizer(path.absolute())


def _import_tokenizers(path: Path) -> Any:  # an optional package, without types where it is absent
    """The module `tokenizers`. Raises D101 that names the extra to install when it is not there."""
    try:
        return importlib.import_module("tokenizers")
    except ImportError as error:
        raise ConfigError(
            "reading this tokenizer needs a package that is not installed",
            code="D101",
            where=str(path),
            expected="the package 'tokenizers'",
            found=str(error),
            next="pip install 'emberward[hf]', or use tokenizer=byte",
        ) from error


def _find_eod(vocabulary: dict[str, int], path: Path) -> int:
    """The id of the first name of EOD_NAMES that the vocabulary has. Raises D101 when it has none."""
    for name in EOD_NAMES:
        if name in vocabulary:
            return vocabulary[name]
    raise ConfigError(
        "the tokenizer has no token that ends a document",
        code="D101",
        where=str(path),
        expected="one of " + " ".join(EOD_NAMES),
        found=f"none of them among {len(vocabulary)} tokens",
        next="add one as a special token of tokenizer.json",
    )

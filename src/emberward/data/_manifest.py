"""The manifest: which files a run's data is made of, with digests, so that changed data never mixes in silently."""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from emberward.data._blend import Blend
from emberward.data._image_form import ImageForm
from emberward.data._tokenizer import TokenizerIdentity, TokenizerKind
from emberward.files import anew
from emberward.findings import Cause, ConfigError

SCHEMA = 1
# Files up to this size are hashed whole; of larger ones the size, both ends and evenly spaced blocks are.
WHOLE_BYTES = 1 << 30
SAMPLED_BLOCKS = 1024
SAMPLED_BLOCK_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20


class DigestMethod(StrEnum):
    """How a file was hashed. A sampled digest misses an edit between its blocks that keeps the size."""

    WHOLE = "sha256"
    SAMPLED = "sha256-sampled"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One file as it was when the data was prepared. `path` is relative to the manifest's root, or absolute."""

    path: str
    size_bytes: int
    sha256: str
    method: DigestMethod = DigestMethod.WHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The tokens, or the images, of one training source or evaluation set.

    `origin` is the path that the recipe gives. `split` says in words which documents are in it. `prefix` and
    `segments` (None: the whole file is used) are relative to the manifest's root, or absolute. Of images `num_tokens`
    is 0, `num_documents` their number, `prefix` the folder of their arrays and `segments` their rows.
    """

    name: str
    weight: float
    origin: str
    split: str
    prefix: str
    segments: str | None
    num_tokens: int
    num_documents: int
    files: tuple[FileRecord, ...]

    def content(self) -> dict[str, object]:
        """The part that counts for a digest: numbers and digests, neither name, weight nor place on a disk."""
        return {
            "num_tokens": self.num_tokens,
            "num_documents": self.num_documents,
            "files": [[record.size_bytes, record.sha256, record.method.value] for record in self.files],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The prepared data of a run: text, with its `tokenizer`, or `images`, with their form.

    `root` is the cache folder and `path` the manifest's own file; neither counts for the digests, so a copy of the
    file, or the same text prepared on another machine, has the same ones. `notes` say what was left out.
    """

    root: Path
    tokenizer: TokenizerIdentity | None
    held_out: float
    train: tuple[Stream, ...]
    evaluation: tuple[Stream, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    path: Path | None = None
    images: ImageForm | None = None

    @property
    def train_digest(self) -> str:
        """sha256 of all that decides the training samples: tokenizer, order of the sources, weights, contents."""
        return _digest({**self.form(), "train": self._train_content()})

    @property
    def digest(self) -> str:
        """sha256 of the training data and the evaluation sets, with all their names."""
        return _digest(
            {
                "train": self.train_digest,
                "names": [stream.name for stream in self.train],
                "evaluation": [[stream.name, stream.weight, stream.content()] for stream in self.evaluation],
            }
        )

    def form(self) -> dict[str, object]:
        """What samples are made with, for a digest: the tokenizer, or the form of images."""
        if self.tokenizer is not None:
            return {"tokenizer": self.tokenizer.content()}
        assert self.images is not None, "a manifest is of text or of images"
        return {"images": self.images.content()}

    def _train_content(self) -> list[list[object]]:
        """Share and content of each training source. Weights 7 and 3 give the same samples as 0.7 and 0.3."""
        shares = Blend(tuple(stream.weight for stream in self.train)).weights
        return [[str(share), stream.content()] for share, stream in zip(shares, self.train, strict=True)]

    def resolve(self, path: str) -> Path:
        """The place of a path of this manifest."""
        return self.root / path

    def to_json(self) -> dict[str, Any]:
        """The JSON document of the manifest, with its digests."""
        return {
            "schema": SCHEMA,
            "digest": self.digest,
            "train_digest": self.train_digest,
            "root": str(self.root),
            "tokenizer": None if self.tokenizer is None else asdict(self.tokenizer),
            "images": None if self.images is None else asdict(self.images),
            "held_out": self.held_out,
            "train": [asdict(stream) for stream in self.train],
            "evaluation": [asdict(stream) for stream in self.evaluation],
            "versions": dict(self.versions),
            "notes": list(self.notes),
        }


def read_manifest(path: Path) -> Manifest:
    """The manifest in the file `path`.

    Raises D101 when it cannot be read, and D102 when its digests are not those of its own content.
    """
    try:
        data = json.loads(anew(lambda: path.read_text("utf-8")))
        if data["schema"] != SCHEMA:
            raise ConfigError(
                "the data manifest has an unknown schema",
                code="D101",
                where=str(path),
                expected=f"schema {SCHEMA}",
                found=f"schema {data['schema']}",
                next="prepare the data anew with this version",
            )
        manifest = Manifest(
            root=Path(data["root"]),
            tokenizer=_tokenizer_from_json(data["tokenizer"]),
            images=None if data.get("images") is None else ImageForm(**data["images"]),
            held_out=data["held_out"],
            train=tuple(stream_from_json(entry) for entry in data["train"]),
            evaluation=tuple(stream_from_json(entry) for entry in data["evaluation"]),
            versions=data["versions"],
            notes=tuple(data["notes"]),
            path=path,
        )
        stated = data["digest"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            "the data manifest cannot be read",
            code="D101",
            where=str(path),
            expected="the JSON file that preparing the data wrote",
            found=f"{type(error).__name__}: {error}",
            next="start again; the data is prepared anew",
        ) from error
    if stated != manifest.digest:
        raise ConfigError(
            "the data manifest was changed by hand",
            code="D102",
            where=str(path),
            expected=f"digest {stated}",
            found=f"digest {manifest.digest}",
            next="start again; the data is prepared anew",
            cause=Cause.BAD_DATA,
        )
    return manifest


def _tokenizer_from_json(data: Mapping[str, Any] | None) -> TokenizerIdentity | None:
    if data is None:
        return None
    return TokenizerIdentity(**{**data, "kind": TokenizerKind(data["kind"])})


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write the manifest aside, flush it, and put it in place."""
    write_json(path, manifest.to_json())


def verify_manifest(manifest: Manifest) -> None:
    """Read every file of the manifest again and compare digests. Blocks: about a second a gigabyte.

    Raises D102 that names the first file that is missing, has another size or another digest, the tokenizer's file
    included. Files over 1 GiB are compared by sampled digest.
    """
    for stream in (*manifest.train, *manifest.evaluation):
        for record in stream.files:
            problem = difference(manifest.root, record)
            if problem is not None:
                raise _changed(manifest.resolve(record.path), *problem)
    if manifest.tokenizer is not None and manifest.tokenizer.sha256 is not None:
        found = _hash_or_none(Path(manifest.tokenizer.name))
        if found != manifest.tokenizer.sha256:
            raise _changed(
                Path(manifest.tokenizer.name),
                f"sha256 {manifest.tokenizer.sha256}",
                "no such file" if found is None else f"sha256 {found}",
            )


def require_same_data(*, before: Manifest, now: Manifest) -> None:
    """Raise D102 when a run that began with `before` would go on with other training data in `now`.

    Evaluation sets and the names of sources may change; `before.digest == now.digest` tells whether they did.
    """
    if before.train_digest == now.train_digest:
        return
    if before.form() != now.form():
        what = "the tokenizer is another one" if before.images is None else "the images are of another form"
        old, new = (str(*manifest.form().values()) for manifest in (before, now))
    elif len(before.train) != len(now.train):
        what = "the training sources are others"
        old, new = (", ".join(s.name for s in manifest.train) for manifest in (before, now))
    else:
        pairs = zip(before._train_content(), now._train_content(), strict=True)
        place = next(place for place, (old, new) in enumerate(pairs) if old != new)
        a, b = before.train[place], now.train[place]
        what, old, new = f"source {a.name} is not what it was", _describe(a), _describe(b)
    raise ConfigError(
        f"{what}; going on would mix two kinds of data in one run",
        code="D102",
        where=str(now.path) if now.path is not None else None,
        expected=old,
        found=new,
        next="give the old data back, or start a new run",
        cause=Cause.BAD_DATA,
    )


def record_file(root: Path, path: str) -> FileRecord:
    """The record of a file as it is now: reads it whole, or in part when over 1 GiB."""
    place = root / path
    size = place.stat().st_size
    method = DigestMethod.WHOLE if size <= WHOLE_BYTES else DigestMethod.SAMPLED
    return FileRecord(path=path, size_bytes=size, sha256=_hash_file(place, method), method=method)


def difference(root: Path, record: FileRecord) -> tuple[str, str] | None:
    """What was expected and what is found where the file is no longer as recorded; None where it is."""
    place = root / record.path
    try:
        size = place.stat().st_size
    except OSError as error:
        return f"{record.size_bytes:,} bytes", error.strerror or str(error)
    if size != record.size_bytes:
        return f"{record.size_bytes:,} bytes", f"{size:,} bytes"
    found = _hash_file(place, record.method)
    return None if found == record.sha256 else (f"{record.method} {record.sha256}", f"{record.method} {found}")


def stream_from_json(data: Mapping[str, Any]) -> Stream:
    """The stream that `asdict` made. Raises KeyError, TypeError or ValueError for anything else."""
    records = tuple(
        FileRecord(**{**record, "method": DigestMethod(record["method"])})  # a StrEnum reads back as a plain string
        for record in data["files"]
    )
    return Stream(**{**data, "files": records})


def write_json(path: Path, data: object) -> None:
    """Write `data` as JSON aside, flush it to the disk, and put it in place: a reader sees all of it or the old one."""
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            json.dump(data, stream, indent=1, ensure_ascii=False)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _hash_file(path: Path, method: DigestMethod) -> str:
    """The digest of a file's content by `method`, in hex."""
    return anew(lambda: _hash_once(path, method))


def _hash_once(path: Path, method: DigestMethod) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        match method:
            case DigestMethod.WHOLE:
                while chunk := stream.read(_CHUNK_BYTES):
                    digest.update(chunk)
            case DigestMethod.SAMPLED:
                size = os.fstat(stream.fileno()).st_size
                digest.update(size.to_bytes(8, "little"))
                for block in range(SAMPLED_BLOCKS):
                    stream.seek(block * (size - SAMPLED_BLOCK_BYTES) // (SAMPLED_BLOCKS - 1))
                    digest.update(stream.read(SAMPLED_BLOCK_BYTES))
    return digest.hexdigest()


def _hash_or_none(path: Path) -> str | None:
    """sha256 of a small file, None when it cannot be read."""
    try:
        return hashlib.sha256(anew(path.read_bytes)).hexdigest()
    except OSError:
        return None


def _digest(content: object) -> str:
    """sha256 of the one JSON text of `content`."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _describe(stream: Stream) -> str:
    """One stream in a few words, for a message."""
    digests = " ".join(record.sha256[:12] for record in stream.files)
    content = f"{stream.num_tokens:,} tokens" if stream.num_tokens else f"{stream.num_documents:,} images"
    return f"{content}, weight {stream.weight:g}, sha256 {digests}"


def _changed(path: Path, expected: str, found: str) -> ConfigError:
    """The D102 of a file that is not what the manifest says."""
    return ConfigError(
        "a data file changed since it was prepared",
        code="D102",
        where=str(path),
        expected=expected,
        found=found,
        next="give the old file back, or start a new run, which prepares the data anew",
        cause=Cause.BAD_DATA,
    )

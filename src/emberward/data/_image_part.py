"""Images prepared in the cache: one array of all pixels, one of all labels, and which rows are held out."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emberward.data._image_folder import MODES, Decoding
from emberward.data._image_form import Block, ImageCorpus, ImageForm, bad_images
from emberward.data._manifest import Stream, record_file
from emberward.data._part import PART_FORMAT, Part, make_part, read_part
from emberward.data._progress import Progress, Reporter
from emberward.data._split import hold_out, require_held_out

IMAGES, LABELS, CLASSES = "images.u8", "labels.npy", "classes.json"


def prepare_images(
    corpus: ImageCorpus, *, decoding: Decoding, share: float, cache: Path, progress: Progress | None
) -> tuple[Part, ImageForm]:
    """The images as arrays in the cache, `share` of each class held out, and their form: found there, or made now.

    The key is made of the files' own digests, so images that change go to another folder; every image is decoded
    before any rank starts. Raises D101 for images that differ in form, or damaged ones; D104 when the disk is full.
    """
    digest = hashlib.sha256()
    reporter = Reporter(progress, f"reading {corpus.name}", len(corpus.files))
    for file in corpus.files:
        try:
            record = record_file(file.parent, file.name)
        except OSError as error:
            raise bad_images(
                "a file cannot be read", where=file, expected="a file", found=error.strerror or str(error)
            ) from error
        digest.update(f"{file.parent.name}\0{record.size_bytes}\0{record.sha256}\n".encode())
        reporter.add(1)
    reporter.end()
    facts = [PART_FORMAT, digest.hexdigest(), decoding.side, decoding.mode, share, corpus.class_names]
    key = f"images-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]}"
    found = read_part(cache, key)
    if found is None:
        found = make_part(cache, key, lambda folder: _build(corpus, folder, key, share, progress))
    return found.of_origin(corpus.origin), read_form(cache / key)


def common_form(forms: Sequence[tuple[str, ImageForm]]) -> ImageForm:
    """What all sources have in common, with the most classes. Raises D101 when they differ in size or mode."""
    first_at, first = forms[0]
    for at, form in forms[1:]:
        if (form.height, form.width, form.channels) != (first.height, first.width, first.channels):
            raise bad_images(
                "two sources have images of different forms",
                where=at,
                expected=f"{first}, as {first_at}",
                found=str(form),
                next="data.images.side and data.images.mode make the image files of folders alike",
            )
    return replace(first, num_classes=max(form.num_classes for _, form in forms))


def read_form(folder: Path) -> ImageForm:
    """The form of prepared images."""
    return ImageForm(**json.loads((folder / CLASSES).read_text("utf-8"))["form"])


def _build(corpus: ImageCorpus, folder: Path, key: str, share: float, progress: Progress | None) -> Part:
    form, hashes, labels = _write(corpus, folder, progress)
    held = hold_out(hashes=hashes, sizes=np.full(len(labels), form.height * form.width), areas=labels, share=share)
    require_held_out(held, share=share, origin=corpus.origin)
    names = None if corpus.class_names is None else list(corpus.class_names)
    facts = {"form": asdict(form), "names": names}
    (folder / CLASSES).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    np.save(folder / LABELS, labels)
    shared = tuple(record_file(folder, name) for name in (IMAGES, LABELS, CLASSES))

    def side(name: str, chosen: NDArray[np.bool_]) -> Stream:
        rows = np.flatnonzero(chosen)
        np.save(folder / f"{name}.rows.npy", rows)
        records = (*shared, record_file(folder, f"{name}.rows.npy"))
        return Stream(
            name="",
            weight=1.0,
            origin="",
            split=f"an image is held out when the hash of its pixels falls below {share:g}" if share > 0 else "none",
            prefix=key,
            segments=f"{key}/{name}.rows.npy",
            num_tokens=0,
            num_documents=len(rows),
            files=tuple(replace(record, path=f"{key}/{record.path}") for record in records),
        )

    return Part(train=side("train", ~held), held_out=(side("held_out", held),) if held.any() else ())


def _write(
    corpus: ImageCorpus, folder: Path, progress: Progress | None
) -> tuple[ImageForm, NDArray[np.uint64], NDArray[np.int64]]:
    """Writes every image and gives the common form, the hash of each image's pixels, and the labels."""
    shape: tuple[int, ...] | None = None
    first_at = ""
    hashes: list[int] = []
    labels: list[NDArray[np.int64]] = []
    reporter = Reporter(progress, f"decoding {corpus.name}", len(corpus.files))
    with (folder / IMAGES).open("wb") as out:
        for block in _known(corpus):
            if shape is None:
                shape, first_at = block.images.shape[1:], block.where()
            if block.images.shape[1:] != shape:
                raise _unequal(block, shape, first_at)
            out.write(np.ascontiguousarray(block.images).tobytes())
            hashes.extend(
                int.from_bytes(hashlib.sha256(image.tobytes()).digest()[:8], "little") for image in block.images
            )
            labels.append(block.labels)
            reporter.add(1)
    reporter.end()
    if shape is None:
        raise bad_images("there is no image", where=corpus.origin, expected="at least one image", found="none")
    height, width, channels = shape
    whole = np.concatenate(labels)
    num_classes = int(whole.max()) + 1 if corpus.class_names is None else len(corpus.class_names)
    form = ImageForm(height=height, width=width, channels=channels, num_classes=num_classes)
    return form, np.array(hashes, np.uint64), whole


def _known(corpus: ImageCorpus) -> Iterator[Block]:
    """The blocks, after a look at their labels. Raises D101 for a negative one."""
    for block in corpus.blocks():
        if (block.labels < 0).any():
            at = int((block.labels < 0).argmax())
            raise bad_images(
                "a label is out of range",
                where=block.where(at),
                expected="class numbers from 0 on",
                found=str(int(block.labels[at])),
                next="number the classes from 0",
            )
        yield block


def _unequal(block: Block, shape: tuple[int, ...], first_at: str) -> Exception:
    """The D101 of images that differ in size or in mode."""
    found = block.images.shape[1:]
    is_size = found[:2] != shape[:2]
    names = {channels: mode for mode, channels in MODES.items()}

    def words(one: tuple[int, ...]) -> str:
        return f"{one[0]} x {one[1]} pixels" if is_size else f"mode {names[one[2]]}"

    return bad_images(
        "the images differ in size" if is_size else "the images differ in mode",
        where=block.where(),
        expected=f"{words(shape)}, as {first_at}",
        found=words(found),
        next=f"data.images.side={min(shape[:2])} scales and cuts every image file"
        if is_size
        else "data.images.mode=RGB converts every image file",
    )

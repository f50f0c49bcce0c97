"""Training images by number, and evaluation sets of images."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emberward.data._augment import Augment, augmented, partner_of, share_of
from emberward.data._blend import Blend
from emberward.data._image_form import ImageBatch, ImageForm, bad_images
from emberward.data._image_part import IMAGES, LABELS
from emberward.data._manifest import Manifest, Stream
from emberward.data._order import Order, SampleOrigin
from emberward.draws import key_of


class ImageStream:
    """The images of one stream, mapped from its files."""

    def __init__(self, *, images: NDArray[np.uint8], labels: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        self._images = images
        self._labels = labels
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def image(self, number: int) -> NDArray[np.uint8]:
        """Image `number` of the stream: uint8 [H, W, C]."""
        found: NDArray[np.uint8] = self._images[self._rows[number]]
        return found

    def label(self, number: int) -> int:
        """Its class number."""
        return int(self._labels[self._rows[number]])


class ImageTrain:
    """Training images by sample number, the same on every rank and in every run of the same data and seed.

    The order is that of text (`_order.py` [Note: order]), with images for windows. What is done to an image depends on
    the seed, its epoch and the image alone, the one it is blended with too: so nothing but the number of samples
    consumed has to be saved to go on, on any number of ranks.
    """

    def __init__(self, *, streams: Sequence[ImageStream], order: Order, form: ImageForm, augment: Augment) -> None:
        self._streams = tuple(streams)
        self._order = order
        self._augment = augment
        self.form = form

    @property
    def names(self) -> tuple[str, ...]:
        """The sources, in the order of the recipe."""
        return self._order.names

    def origins(self, indices: Sequence[int]) -> list[SampleOrigin]:
        """Where each of the samples comes from; `window` is the image's number in its source."""
        return self._order.origins(indices)

    def batch(self, indices: Sequence[int]) -> ImageBatch:
        """The samples with these numbers, in this order. Reads files."""
        form = self.form
        batch = _blank(len(indices), form, samples=tuple(indices))
        sources, epochs, numbers = self._order.locate(np.asarray(indices, dtype=np.int64))
        for row, (source, epoch, number) in enumerate(
            zip(sources.tolist(), epochs.tolist(), numbers.tolist(), strict=True)
        ):
            key = key_of(self._order.seed, "augment", source, epoch, number)
            self._put(batch, row, source, number, key, 1.0)
            if self._augment.mixup:
                share = share_of(key, self._augment.mixup)
                batch.images[row] *= np.float32(share)
                batch.targets[row] *= np.float32(share)
                other = partner_of(key, len(self._streams[source]))
                self._put(batch, row, source, other, key_of(key, "second"), 1 - share)
        batch.mask[:] = 1
        return batch

    def _put(self, batch: ImageBatch, row: int, source: int, number: int, key: int, share: float) -> None:
        stream = self._streams[source]
        pixels = augmented(stream.image(number), self._augment, key)
        batch.images[row] += np.float32(share) * _values(pixels)
        batch.targets[row, stream.label(number)] += np.float32(share)


class ImageEval:
    """A named set of images that does not change from one evaluation to the next, nor with seed, dp or weights."""

    def __init__(self, *, name: str, stream: ImageStream, form: ImageForm, max_samples: int) -> None:
        self.name = name
        self.num_samples = min(len(stream), max_samples)
        self.form = form
        self._stream = stream

    def batch(self, indices: Sequence[int | None]) -> ImageBatch:
        """The images with these numbers; None gives a black one with weight 0. Reads files."""
        batch = _blank(len(indices), self.form, samples=None)
        for row, index in enumerate(indices):
            if index is None:
                continue
            if not 0 <= index < self.num_samples:
                raise IndexError(f"sample {index} of {self.num_samples} of evaluation set {self.name}")
            number = index * len(self._stream) // self.num_samples
            batch.images[row] = _values(self._stream.image(number))
            batch.targets[row, self._stream.label(number)] = 1
            batch.mask[row] = 1
        return batch


def open_image_train(manifest: Manifest, *, seed: int, augment: Augment, num_classes: int) -> ImageTrain:
    """The training images of `manifest`, with targets of `num_classes`. Maps its files.

    Raises D101 when one is missing or damaged.
    """
    form = replace(_form_of(manifest), num_classes=num_classes)
    streams = [_open(manifest, entry, form) for entry in manifest.train]
    order = Order(
        names=[entry.name for entry in manifest.train],
        sizes=[len(stream) for stream in streams],
        blend=Blend(tuple(entry.weight for entry in manifest.train)),
        seed=seed,
    )
    return ImageTrain(streams=streams, order=order, form=form, augment=augment)


def open_image_eval(manifest: Manifest, *, max_samples: int, num_classes: int) -> dict[str, ImageEval]:
    """The evaluation sets of `manifest` by name, in its order. Maps their files. Raises D101 as `open_image_train`."""
    form = replace(_form_of(manifest), num_classes=num_classes)
    return {
        entry.name: ImageEval(name=entry.name, stream=_open(manifest, entry, form), form=form, max_samples=max_samples)
        for entry in manifest.evaluation
    }


def require_form(manifest: Manifest, *, height: int, width: int, channels: int, num_classes: int) -> None:
    """Raises D101 unless a model of these sizes can take the images of `manifest`. Reads no image."""
    form = _form_of(manifest)
    where = ", ".join(stream.origin for stream in manifest.train)
    if (form.height, form.width, form.channels) != (height, width, channels):
        wanted = ImageForm(height=height, width=width, channels=channels, num_classes=num_classes)
        raise bad_images(
            "the images do not fit the model",
            where=where,
            expected=str(wanted),
            found=str(form),
            next=f"model.image_size={form.height} model.num_channels={form.channels}",
        )
    if form.num_classes > num_classes:
        raise bad_images(
            "a label is out of range",
            where=where,
            expected=f"class numbers below model.num_classes={num_classes}",
            found=f"{form.num_classes - 1}",
            next=f"model.num_classes={form.num_classes}",
        )


def _form_of(manifest: Manifest) -> ImageForm:
    assert manifest.images is not None, "the manifest is of text"
    return manifest.images


def _open(manifest: Manifest, entry: Stream, form: ImageForm) -> ImageStream:
    folder = manifest.resolve(entry.prefix)
    assert entry.segments is not None
    try:
        labels = np.load(folder / LABELS, mmap_mode="r", allow_pickle=False)
        rows = np.load(manifest.resolve(entry.segments), mmap_mode="r", allow_pickle=False)
        shape = (len(labels), form.height, form.width, form.channels)
        images = np.memmap(folder / IMAGES, np.uint8, mode="r", shape=shape)
    except (OSError, ValueError) as error:
        raise bad_images(
            "a prepared file cannot be read",
            where=Path(folder),
            expected="the files that preparing the data wrote",
            found=str(error),
            next="delete the data cache; it is made anew at the next start",
        ) from error
    return ImageStream(images=images, labels=labels, rows=rows)


def _blank(num: int, form: ImageForm, *, samples: tuple[int, ...] | None) -> ImageBatch:
    return ImageBatch(
        images=np.zeros((num, form.channels, form.height, form.width), np.float32),
        targets=np.zeros((num, form.num_classes), np.float32),
        mask=np.zeros(num, np.float32),
        samples=samples,
    )


def _values(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """[H, W, C] of 0 to 255 as [C, H, W] of -1 to 1."""
    return pixels.transpose(2, 0, 1).astype(np.float32) * np.float32(1 / 127.5) - np.float32(1)

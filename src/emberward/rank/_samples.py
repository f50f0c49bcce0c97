"""Samples for a model, of whatever kind it takes: opened, cut into micro-batches, and blank ones for a rehearsal."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch

from emberward.data import (
    Augment,
    Batch,
    ImageBatch,
    Manifest,
    MaskedBatch,
    MaskedText,
    Masking,
    open_eval,
    open_image_eval,
    open_image_train,
    open_train,
)
from emberward.draws import key_of
from emberward.engine import MicroBatch
from emberward.families import model_of
from emberward.layout import DataKind, Sample
from emberward.recipe import Recipe

AnyBatch = Batch | MaskedBatch | ImageBatch
EMPTY = torch.empty((0, 0), dtype=torch.int64)


class Samples(Protocol):
    """Training samples by number, the same on every rank."""

    def batch(self, indices: Sequence[int]) -> AnyBatch:
        """The samples with these numbers, in this order. Reads files."""


class SampleSet(Protocol):
    """A named set to evaluate on; None among the numbers stands for a row of weight 0."""

    @property
    def num_samples(self) -> int:
        """How many it holds."""

    def batch(self, indices: Sequence[int | None]) -> AnyBatch:
        """The samples with these numbers, in this order. Reads files."""


def open_samples(recipe: Recipe, manifest: Manifest) -> tuple[Samples, dict[str, SampleSet]]:
    """The training samples and the evaluation sets of a run. Maps files. Raises D101 for one that is damaged."""
    model, most = recipe.model, recipe.evaluation.samples
    if model_of(model).sample.kind is DataKind.IMAGES:
        images = recipe.data.images
        augment = Augment(crop=images.crop, flip=images.flip, mixup=images.mixup)
        classes = model.num_classes
        train = open_image_train(manifest, seed=recipe.seed, augment=augment, num_classes=classes)
        return train, {**open_image_eval(manifest, max_samples=most, num_classes=classes)}
    text = open_train(manifest, seed=recipe.seed, seq_len=model.seq_len)
    sets = open_eval(manifest, seq_len=model.seq_len, max_samples=most)
    masking = masking_of(recipe, manifest)
    if masking is None:
        return text, {**sets}
    return MaskedText(text, masking, key=key_of(recipe.seed, "masking")), {
        name: MaskedText(each, masking, key=key_of(name, "masking"), num_samples=each.num_samples)
        for name, each in sets.items()
    }


def masking_of(recipe: Recipe, manifest: Manifest) -> Masking | None:
    """How tokens are hidden from the model; None for a model that sees all before the next."""
    sample = model_of(recipe.model).sample
    if sample.kind is not DataKind.MASKED_TOKENS:
        return None
    assert manifest.tokenizer is not None and sample.mask_id is not None, "masked tokens have a tokenizer and a mask"
    specials = {sample.mask_id, manifest.tokenizer.eod, *(() if sample.pad_id is None else (sample.pad_id,))}
    return Masking(
        share=recipe.data.mask_share,
        mask_id=sample.mask_id,
        specials=frozenset(specials),
        num_ids=manifest.tokenizer.size,
    )


def micro_batches(
    indices: Sequence[int], batch: AnyBatch | None, num_mb: int, device: torch.device
) -> list[MicroBatch]:
    """The samples `indices` of one rank's part of a step in `num_mb` equal parts, on `device`.

    `batch` is what they are, None on a rank that reads no data. Does not wait for a device.
    """
    size = len(indices) // num_mb
    samples = [tuple(indices[first : first + size]) for first in range(0, len(indices), size)]
    if batch is None:
        return [MicroBatch(inputs=EMPTY, labels=EMPTY, weights=EMPTY, samples=each) for each in samples]
    parts = zip(*(_copied(tensor, device).chunk(num_mb) for tensor in _tensors(batch)), strict=True)
    return [
        MicroBatch(inputs=inputs.contiguous(), labels=labels.contiguous(), weights=weights, samples=each)
        for (inputs, labels, weights), each in zip(parts, samples, strict=True)
    ]


def eval_micro_batch(batch: AnyBatch, device: torch.device) -> MicroBatch:
    """The samples as one micro-batch for which nothing is drawn."""
    inputs, labels, weights = (_copied(tensor, device).contiguous() for tensor in _tensors(batch))
    return MicroBatch(inputs=inputs, labels=labels, weights=weights)


def _copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on `device`, a GPU reading it from pinned memory in its current stream; itself on the CPU."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def _tensors(batch: AnyBatch) -> Iterator[torch.Tensor]:
    """Inputs, labels and weights."""
    match batch:
        case Batch(tokens=tokens, mask=mask):
            whole = torch.from_numpy(tokens)
            yield whole[:, :-1]
            yield whole[:, 1:]
            yield torch.from_numpy(mask)
        case MaskedBatch(inputs=inputs, labels=labels, mask=mask):
            yield from map(torch.from_numpy, (inputs, labels, mask))
        case ImageBatch(images=images, targets=targets, mask=mask):
            yield torch.from_numpy(images)
            yield torch.from_numpy(targets)
            yield torch.from_numpy(mask)


class BlankSamples:
    """Samples of zeros, for training and evaluation alike: as many as one asks for, and no file."""

    def __init__(self, sample: Sample, *, num_samples: int) -> None:
        self.num_samples = num_samples
        self._sample = sample

    def batch(self, indices: Sequence[int | None]) -> AnyBatch:
        """Samples of zeros, of weight 1, or 0 for None."""
        sample, num = self._sample, len(indices)
        weights = np.array([index is not None for index in indices], np.float32)
        if sample.kind is DataKind.IMAGES:
            return ImageBatch(
                images=np.zeros((num, *sample.input_shape), np.float32),
                targets=np.zeros((num, *sample.label_shape), np.float32),
                mask=weights,
                samples=None,
            )
        (length,) = sample.input_shape
        if sample.kind is DataKind.MASKED_TOKENS:
            ids = np.zeros((num, length), np.int64)
            return MaskedBatch(inputs=ids, labels=ids, mask=np.broadcast_to(weights[:, None], ids.shape).copy())
        return Batch(
            tokens=np.zeros((num, length + 1), np.int64),
            mask=np.broadcast_to(weights[:, None], (num, length)).copy(),
        )

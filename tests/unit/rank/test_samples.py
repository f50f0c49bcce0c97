"""Samples as a model takes them: cut into micro-batches with their numbers, and blank ones of the same shapes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from emberward.data import Batch, ImageBatch, MaskedBatch
from emberward.families import model_of
from emberward.findings import EmberwardError
from emberward.rank._generate import Sampling, write_text
from emberward.rank._samples import BlankSamples, eval_micro_batch, micro_batches
from emberward.recipe import load_recipe, resolve
from emberward.recipe.presets import bloom_tiny, roberta_10b, swin_tiny

CPU = torch.device("cpu")
TEXT = model_of(replace(bloom_tiny().model, ffn_hidden=512, vocab_size=384, init_std=0.02)).sample
IMAGES = model_of(replace(swin_tiny().model, init_std=0.02)).sample

MASKED = model_of(replace(roberta_10b().model, num_layers=1, ffn_hidden=20480, init_std=0.02)).sample


def text() -> Batch:
    return Batch(tokens=np.arange(6 * 5).reshape(6, 5), mask=np.ones((6, 4), np.float32))


def images() -> ImageBatch:
    return ImageBatch(
        images=np.arange(6 * 4, dtype=np.float32).reshape(6, 1, 2, 2),
        targets=np.eye(6, dtype=np.float32),
        mask=np.ones(6, np.float32),
        samples=None,
    )


def masked() -> MaskedBatch:
    ids = np.arange(6 * 4).reshape(6, 4)
    return MaskedBatch(inputs=ids, labels=ids + 1, mask=np.ones((6, 4), np.float32))


@pytest.mark.parametrize("batch", [text(), images(), masked()], ids=["text", "images", "masked"])
def test_micro_batches_hold_all_samples_in_order_with_their_numbers(batch):
    numbers = (7, 8, 9, 20, 21, 22)
    parts = micro_batches(numbers, batch, 3, CPU)
    whole = eval_micro_batch(batch, CPU)
    assert [part.samples for part in parts] == [(7, 8), (9, 20), (21, 22)]
    for name in ("inputs", "labels", "weights"):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(whole, name))
    assert whole.samples is None, "nothing is drawn in an evaluation"


def test_the_label_of_a_token_is_the_next():
    part = eval_micro_batch(text(), CPU)
    assert torch.equal(part.inputs[:, 1:], part.labels[:, :-1])


def test_a_rank_without_data_knows_the_numbers_all_the_same():
    parts = micro_batches((4, 5, 6, 7), None, 2, CPU)
    assert [part.samples for part in parts] == [(4, 5), (6, 7)] and parts[0].inputs.numel() == 0


@pytest.mark.parametrize("sample", [TEXT, IMAGES, MASKED], ids=["text", "images", "masked"])
def test_blank_samples_have_the_shapes_of_the_model_and_no_weight_for_padding(sample):
    part = eval_micro_batch(BlankSamples(sample, num_samples=9).batch([0, 1, None]), CPU)
    assert tuple(part.inputs.shape) == (3, *sample.input_shape)
    assert tuple(part.labels.shape) == (3, *sample.label_shape)
    assert str(part.inputs.dtype).removeprefix("torch.") == sample.input_dtype
    assert float(part.weights.sum()) == 2 * sample.num_units and not part.weights[2].any()


def test_a_model_of_images_writes_no_text(tmp_path):
    recipe = resolve(load_recipe("swin_tiny", []), num_ranks=8, tokenizer_size=257).recipe
    with pytest.raises(EmberwardError) as caught:
        list(write_text(recipe, tmp_path, "", Sampling(num_tokens=1, seed=0)))
    error = caught.value
    assert (error.code, error.expected, error.found) == ("K102", "a model of tokens", "family swin, of images")

"""A recipe's data, prepared for ranks that only read it."""

from collections.abc import Callable
from pathlib import Path

from emberward.data import Decoding, Manifest, prepare, prepare_image_sets, require_form, verify_manifest
from emberward.families import model_of
from emberward.layout import DataKind
from emberward.recipe import Recipe

DEFAULT_CACHE = Path(".emberward/data")


def prepare_data(recipe: Recipe, *, progress: Callable[[str, float], None] | None) -> Manifest:
    """The prepared data of a resolved `recipe`, made now unless it was before, and proved against its digests.

    One process calls it, before any rank reads. Raises ConfigError D101, D102 or D104.
    """
    train = [(source.path, source.weight, source.name) for source in recipe.data.train]
    evaluation = [(source.path, source.weight, source.name) for source in recipe.evaluation.sets]
    cache = Path(recipe.data.cache or DEFAULT_CACHE).expanduser().absolute()
    held_out, model, images = recipe.data.held_out, recipe.model, recipe.data.images
    if model_of(model).sample.kind is DataKind.IMAGES:
        decoding = Decoding(side=images.side, mode=None if images.mode is None else images.mode.value)
        manifest = prepare_image_sets(
            train=train, evaluation=evaluation, decoding=decoding, held_out=held_out, cache=cache, progress=progress
        )
        require_form(
            manifest,
            height=model.image_size,
            width=model.image_size,
            channels=model.num_channels,
            num_classes=model.num_classes,
        )
    else:
        manifest = prepare(
            train=train,
            evaluation=evaluation,
            tokenizer=recipe.data.tokenizer,
            held_out=held_out,
            cache=cache,
            progress=progress,
        )
    verify_manifest(manifest)
    return manifest

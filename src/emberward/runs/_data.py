"""A recipe's data, prepared for ranks that only read it."""

from collections.abc import Callable
from pathlib import Path

from emberward.data import Manifest, prepare, verify_manifest
from emberward.recipe import Recipe

DEFAULT_CACHE = Path(".emberward/data")


def prepare_data(recipe: Recipe, *, progress: Callable[[str, float], None] | None) -> Manifest:
    """The prepared data of `recipe`, made now unless it was before, and proved against its digests.

    One process calls it, before any rank reads. Raises ConfigError D101, D102 or D104.
    """
    manifest = prepare(
        train=[(source.path, source.weight, source.name) for source in recipe.data.train],
        evaluation=[(source.path, source.weight, source.name) for source in recipe.evaluation.sets],
        tokenizer=recipe.data.tokenizer,
        held_out=recipe.data.held_out,
        cache=Path(recipe.data.cache or DEFAULT_CACHE).expanduser().absolute(),
        progress=progress,
    )
    verify_manifest(manifest)
    return manifest

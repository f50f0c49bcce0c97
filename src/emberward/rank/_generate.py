"""A saved model that writes text, on one process, whatever the layout that it was trained on."""

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from emberward import checkpoint
from emberward.data import Tokenizer, open_tokenizer
from emberward.engine import Engine, build_world
from emberward.families import model_of
from emberward.findings import EmberwardError
from emberward.layout import DataKind
from emberward.rank._device import choose_device
from emberward.recipe import Backend, LayoutConfig, Recipe, ZeroStage, mesh_of

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the text is drawn: `temperature` 0 takes the likeliest token each time, `top_k` None all tokens."""

    num_tokens: int
    seed: int
    temperature: float = 0.8
    top_k: int | None = None


def write_text(recipe: Recipe, save: Path, prompt: str, sampling: Sampling) -> Iterator[str]:
    """Pieces of the text that the model in `save` writes after `prompt`, until the end of a document at the latest.

    Every byte that is read is proved by its checksum. Needs no other process; it must not have a process group. Raises
    EmberwardError K101 and K102 for a save that is damaged or of another model, D101 without the tokenizer.
    """
    kind = model_of(recipe.model).sample.kind
    if kind is not DataKind.TOKENS:
        raise EmberwardError(
            "this model writes no text",
            code="K102",
            where=str(save),
            expected=f"a model of {DataKind.TOKENS.value}",
            found=f"family {recipe.model.family}, of {kind.value}",
            next="emberward checkpoint export RUN FOLDER gives the model to transformers",
        )
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch")
    tokenizer = open_tokenizer(recipe.data.tokenizer)
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=_TIMEOUT_S))
    try:
        engine = _open_engine(alone(recipe), save)
        ids = [int(token) for token in tokenizer.encode(prompt)]
        found = engine.continue_tokens(ids, seed=sampling.seed, temperature=sampling.temperature, top_k=sampling.top_k)
        until_end = itertools.takewhile(lambda token: token != tokenizer.eod, found)
        yield from _pieces(itertools.islice(until_end, sampling.num_tokens), tokenizer)
    finally:
        dist.destroy_process_group()


def alone(recipe: Recipe) -> Recipe:
    """The recipe of the same model on one rank."""
    return replace(recipe, layout=LayoutConfig(dp=1, zero=ZeroStage.NONE), schedule="1f1b")


def _open_engine(recipe: Recipe, save: Path) -> Engine:
    chosen = choose_device(recipe.device, Backend.AUTO, local_rank=0, local_world_size=1)
    world = build_world(mesh_of(recipe.layout), device=chosen.device, timeout_s=_TIMEOUT_S)
    engine = Engine(recipe, world)
    checkpoint.load(save, [shard for shard in engine.shards(owned_only=False) if shard.name.startswith("model/")])
    return engine


def _pieces(ids: Iterator[int], tokenizer: Tokenizer) -> Iterator[str]:
    """The text of the tokens, each part as soon as it cannot change: a letter may take several tokens."""
    known: list[int] = []
    written = 0
    for token in ids:
        known.append(token)
        text = tokenizer.decode(known).rstrip("\ufffd")
        if len(text) > written:
            yield text[written:]
            written = len(text)
    rest = tokenizer.decode(known)[written:]
    if rest:
        yield rest

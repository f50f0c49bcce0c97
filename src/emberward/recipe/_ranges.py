"""What values a key may take, for keys that one number or one word decides. One table: checks and reference read it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from emberward.findings import ConfigError
from emberward.plan import SCHEDULES
from emberward.recipe._debug import parse_debug
from emberward.recipe._names import closest
from emberward.recipe._origins import blame, cited
from emberward.recipe._recipe import Recipe, Source
from emberward.recipe._schema import leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Bounds of a number, each absent or part of the range unless its name says otherwise."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def is_inside(self, value: float) -> bool:
        """Whether the number lies in the range."""
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        bounds = (
            ("at least", self.at_least),
            ("above", self.above),
            ("at most", self.at_most),
            ("below", self.below),
        )
        return ", ".join(f"{word} {value:,}" for word, value in bounds if value is not None)


_COUNT = Range(at_least=1)
_NOT_NEGATIVE = Range(at_least=0)
_POSITIVE = Range(above=0)
_SHARE = Range(at_least=0, below=1)

RANGES: Mapping[str, Range] = {
    "seed": Range(at_least=0, below=2**63),
    "steps": _COUNT,
    "train_samples": _COUNT,
    "timeout_s": _POSITIVE,
    "sample_tokens": _NOT_NEGATIVE,
    "model.num_layers": _COUNT,
    "model.hidden": _COUNT,
    "model.num_heads": _COUNT,
    "model.ffn_hidden": _COUNT,
    "model.vocab_size": Range(at_least=2),
    "model.seq_len": _COUNT,
    "model.layer_norm_eps": Range(above=0, below=1),
    "model.init_std": _POSITIVE,
    "model.depths": _COUNT,
    "model.stage_heads": _COUNT,
    "model.window": _COUNT,
    "model.mlp_ratio": _POSITIVE,
    "model.image_size": _COUNT,
    "model.patch_size": _COUNT,
    "model.num_channels": _COUNT,
    "model.num_classes": _COUNT,
    "model.drop_path": _SHARE,
    "model.dropout": _SHARE,
    "model.attention_dropout": _SHARE,
    "model.llama.num_kv_heads": _COUNT,
    "model.llama.head_size": _COUNT,
    "model.llama.rope_theta": Range(above=1),
    "model.llama.rope_factor": Range(at_least=1),
    "model.llama.rope_low": _POSITIVE,
    "model.llama.rope_high": _POSITIVE,
    "model.llama.rope_positions": _COUNT,
    "model.roberta.mask_id": _NOT_NEGATIVE,
    "model.roberta.pad_id": _NOT_NEGATIVE,
    "model.roberta.num_positions": _COUNT,
    "model.roberta.num_token_types": _COUNT,
    "layout.dp": _COUNT,
    "layout.tp": _COUNT,
    "layout.pp": _COUNT,
    "layout.gathered_gb": _NOT_NEGATIVE,
    "layout.dp_replicate": _COUNT,
    "layout.stages_per_rank": _COUNT,
    "layout.lane_credit": _COUNT,
    "layout.stage_layers": _COUNT,
    "batch.global_batch": _COUNT,
    "batch.micro_batch": _COUNT,
    "batch.accumulation": _COUNT,
    "batch.ramp_up.start": _COUNT,
    "batch.ramp_up.increment": _COUNT,
    "batch.ramp_up.samples": _COUNT,
    "optim.lr": _NOT_NEGATIVE,
    "optim.lr_min": _NOT_NEGATIVE,
    "optim.warmup_samples": _NOT_NEGATIVE,
    "optim.decay_samples": _COUNT,
    "optim.betas": Range(at_least=0, below=1),
    "optim.eps": _POSITIVE,
    "optim.weight_decay": _NOT_NEGATIVE,
    "optim.clip": _POSITIVE,
    "data.mask_share": Range(above=0, below=1),
    "precision.loss_scale": _POSITIVE,
    "precision.loss_scale_window": _COUNT,
    "data.held_out": Range(at_least=0, at_most=0.5),
    "data.prefetch": _COUNT,
    "data.images.side": _COUNT,
    "data.images.crop": _NOT_NEGATIVE,
    "data.images.mixup": Range(at_least=0, at_most=2),
    "evaluation.interval": _COUNT,
    "evaluation.samples": _COUNT,
    "evaluation.micro_batch": _COUNT,
    "save.interval": _COUNT,
    "save.keep": _COUNT,
    "save.keep_every": _COUNT,
    "health.drift_interval": _COUNT,
    "health.spike_ratio": Range(at_least=2),
    "health.inspect": _NOT_NEGATIVE,
    "log.interval": _COUNT,
    "log.events": _NOT_NEGATIVE,
    "log.prometheus_port": Range(at_least=1, at_most=65535),
}

# What switches a thing off whose number must be positive.
_OFF = {
    "optim.clip": "optim.clip=null turns clipping off",
    "save.interval": "save.interval=null saves only at the end",
    "save.keep": "save.keep=null keeps all saves",
    "save.keep_every": "save.keep_every=null keeps none for ever",
    "health.drift_interval": "health.drift_interval=null never compares",
    "health.spike_ratio": "health.spike_ratio=null turns the alarm off",
    "evaluation.interval": "evaluation.interval=null evaluates only at the end",
    "log.prometheus_port": "log.prometheus_port=null turns it off",
}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def require_ranges(recipe: Recipe, origins: Mapping[str, str]) -> None:
    """Raises ConfigError C103 for the first value, in the order of the keys, that its key does not allow."""
    for name, value in leaves(recipe).items():
        allowed = RANGES.get(name)
        numbers = value if isinstance(value, tuple) else (value,)
        if allowed is None:
            continue
        for number in numbers:
            if isinstance(number, int | float) and not allowed.is_inside(number):
                raise out_of_range(name, origins, expected=str(allowed), found=f"{number}", next=_OFF.get(name))
    _require_words(recipe, origins)
    _require_sources("data.train", recipe.data.train, origins)
    _require_sources("evaluation.sets", recipe.evaluation.sets, origins)
    if not recipe.data.train:
        raise out_of_range(
            "data.train", origins, expected="at least one source", found="none", next="data.train=stdlib"
        )
    if recipe.optim.lr_min > recipe.optim.lr:
        raise ConfigError(
            "the learning rate would rise in its decay",
            code="C103",
            where=blame(origins, "optim.lr", "optim.lr_min"),
            expected="optim.lr_min at most optim.lr",
            found=cited(recipe, origins, "optim.lr", "optim.lr_min"),
            next=f"optim.lr_min={recipe.optim.lr / 10:g}",
        )


def out_of_range(
    name: str, origins: Mapping[str, str], *, expected: str, found: str, next: str | None = None
) -> ConfigError:
    """The error for a value that its key does not allow."""
    return ConfigError(
        f"{name} is out of range", code="C103", where=origins[name], expected=expected, found=found, next=next
    )


def _require_words(recipe: Recipe, origins: Mapping[str, str]) -> None:
    if not _NAME.fullmatch(recipe.name):
        raise out_of_range(
            "name", origins, expected="the name of a folder: letters, digits, _ - and .", found=f'"{recipe.name}"'
        )
    for text in recipe.debug:
        parse_debug(text)
    if recipe.schedule not in SCHEDULES and not recipe.schedule.endswith(".csv"):
        near = closest(recipe.schedule, SCHEDULES)
        raise out_of_range(
            "schedule",
            origins,
            expected=f"one of {', '.join(SCHEDULES)}, or the path of a .csv",
            found=recipe.schedule,
            next=f"did you mean schedule={near[0]}?" if near else None,
        )


def _require_sources(name: str, sources: tuple[Source, ...], origins: Mapping[str, str]) -> None:
    seen: set[str] = set()
    for index, source in enumerate(sources):
        if not source.path:
            raise out_of_range(name, origins, expected="a path in each source", found=f"none in {name}[{index}]")
        if source.weight <= 0:
            raise out_of_range(
                name, origins, expected="weights above 0", found=f"weight {source.weight} of {source.path}"
            )
        if source.name is not None and source.name in seen:
            raise out_of_range(
                name, origins, expected="a name of its own for each source", found=f"{source.name} twice"
            )
        seen |= {source.name} if source.name is not None else set()

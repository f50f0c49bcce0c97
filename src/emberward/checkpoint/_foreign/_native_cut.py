"""How DeepSpeed cuts a model among ranks: pipeline stages, parameter groups, flat parts. Sums on names and numbers.

Formulas: DeepSpeed 0.19.8, ``runtime/utils.py`` (``partition_uniform``), ``runtime/zero/stage_1_and_2.py``
(``alignment``, ``groups_padding``), ``runtime/zero/partition_parameters.py`` (``_aligned_size``),
``runtime/zero/stage3.py`` (``_create_fp16_sub_groups``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emberward.checkpoint._foreign._module import TIED_PREFIX
from emberward.checkpoint._foreign._problems import not_writable

_START_ALIGNMENT = 2
"""``nccl_start_alignment_factor``: each rank's part is a multiple of it."""
SUB_GROUP_ELEMENTS = 1_000_000_000
"""``sub_group_size`` of ZeRO 3 where the configuration does not say (``runtime/zero/config.py``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """How many pipeline stages, or the first layer of each when they are not equal."""

    count: int
    first_layers: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, text: str) -> "Stages":
        """Stages of ``4`` or ``0,5,9,14``. Raises K120."""
        words = text.split(",")
        if not all(word.strip().isdigit() for word in words) or (len(words) == 1 and int(words[0]) == 0):
            raise _bad_stages(text)
        numbers = tuple(map(int, words))
        if len(numbers) == 1:
            return cls(count=numbers[0])
        if numbers[0] != 0 or list(numbers) != sorted(set(numbers)):
            raise _bad_stages(text)
        return cls(count=len(numbers), first_layers=numbers)

    def starts(self, num_layers: int) -> tuple[int, ...]:
        """The first layer of each stage; equal numbers of layers unless they were said, as ``uniform`` cuts them."""
        if self.first_layers is not None:
            return self.first_layers
        size, rest = divmod(num_layers, self.count)
        return tuple(stage * size + min(stage, rest) for stage in range(self.count))


def _bad_stages(text: str) -> Exception:
    return not_writable(
        "the pipeline stages are not understood",
        where="--stages",
        expected="a number, or the first layer of each stage, as 0,5,9",
        found=text,
    )


def layer_of(name: str) -> int:
    """The layer that a pipeline module's parameter belongs to. Raises K120 for a name that begins with no number."""
    number, _, local = name.partition(".")
    if not number.isdigit() or not local:
        raise not_writable(
            "a parameter is in no numbered layer, so no pipeline stage can be chosen for it",
            where=name,
            expected="names as a PipelineModule gives them: 3.attention.weight",
            found=name,
            next="write it without --stages, or as deepspeed-universal",
        )
    return int(number)


def local_name(name: str, tied: Mapping[str, Any]) -> tuple[str, list[int]]:
    """A parameter's name within its layer, and the layers whose files hold it: one, or those of a tied module."""
    key, _, local = name.removeprefix(TIED_PREFIX).partition(".")
    if name.startswith(TIED_PREFIX) and key in tied:
        return local, list(tied[key]["files"])
    return name.partition(".")[2], [layer_of(name)]


def by_stage(names: Sequence[str], stages: Stages, tied: Mapping[str, Any]) -> list[list[str]]:
    """The names of each stage, in the order given. Raises K120 when a stage would be empty.

    `tied` says of each tied module which layers have a file of it and which only call it: their stages hold it too.
    """
    if stages.count == 1:
        return [list(names)]
    layers = []
    for name in names:
        key = name.removeprefix(TIED_PREFIX).partition(".")[0]
        calls = tied[key]["calls"] if name.startswith(TIED_PREFIX) and key in tied else []
        layers.append({*local_name(name, tied)[1], *calls})
    last = max((max(own) for own in layers), default=0)
    starts = stages.starts(1 + last)
    ends = (*starts[1:], last + 1)
    cut = [
        [name for name, own in zip(names, layers, strict=True) if any(start <= layer < end for layer in own)]
        for start, end in zip(starts, ends, strict=True)
    ]
    for stage, own in enumerate(cut):
        if not own:
            raise not_writable(
                f"pipeline stage {stage} would have no parameter",
                where="--stages",
                expected=f"stages that begin at different ones of layers 0 to {last}",
                found=", ".join(map(str, starts)),
            )
    return cut


def flat_part(num_elements: int, num_ranks: int, rank: int) -> tuple[int, int, int]:
    """Range [begin, end) of a group's elements on a rank of ZeRO 1, and the padding that follows it there."""
    unit = _START_ALIGNMENT * num_ranks
    size = -(-num_elements // unit) * unit // num_ranks
    begin, end = min(rank * size, num_elements), min((rank + 1) * size, num_elements)
    return begin, end, size - (end - begin)


def sub_groups(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Positions of a group's parameters in each sub-group of ZeRO 3; `sizes` are elements of each on one rank."""
    if sum(sizes) <= limit:
        return [list(range(len(sizes)))]
    groups: list[list[int]] = [[]]
    filled = 0
    for position, size in enumerate(sizes):
        groups[-1].append(position)
        filled += size
        if filled >= limit and position < len(sizes) - 1:
            groups.append([])
            filled = 0
    return groups

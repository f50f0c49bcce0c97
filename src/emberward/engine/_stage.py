"""A pipeline stage: consecutive blocks of a model, built by its family and held together with what it declares."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from emberward.draws import Draws
from emberward.families import ModelConfig, find_family, model_of
from emberward.families.layers import Modules, TensorAxis
from emberward.findings import ConfigError
from emberward.layout import Block, Model, TensorSpec


def modules_of(config: ModelConfig) -> Modules:
    """The torch modules of the recipe's family. Raises ConfigError C116 when there is no such module."""
    name = find_family(config.family).modules
    try:
        return cast(Modules, import_module(name))
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ConfigError(
            "the family's modules are not found",
            code="C116",
            where=f"modules of {config.family}",
            expected="the name of a Python module on PYTHONPATH",
            found=name,
            next="docs/add_a_family.md",
        ) from error


class StageModule(nn.Module):
    """The blocks `numbers` of the model, on the meta device. Raises ConfigError C116 unless they are as declared."""

    def __init__(self, config: ModelConfig, numbers: range, axis: TensorAxis | None) -> None:
        super().__init__()
        self.model: Model = model_of(config)
        self.numbers = numbers
        self._recomputes = config.recompute
        build = modules_of(config).build
        with torch.device("meta"):
            self.blocks = nn.ModuleDict({str(number): build(config, number, axis) for number in numbers})
        for number in numbers:
            _require_declared(self.model.blocks[number], self.blocks[str(number)], axis)
        self.tie()

    def forward(self, x: Tensor, draws: Draws | None = None) -> Tensor:
        """What the last block gives for `x`: a batch of inputs on the first stage, else what the stage before gave."""
        last = len(self.model.blocks) - 1
        for number, block in self.blocks.items():
            is_again = self._recomputes and torch.is_grad_enabled() and 0 < int(number) < last
            run = partial(checkpoint, block, use_reentrant=False) if is_again else block
            x = run(x, draws)
        return x

    @property
    def layers(self) -> list[nn.Module]:
        """The blocks between the model's first and last."""
        return self.ends_and_layers()[1]

    def ends_and_layers(self) -> tuple[list[nn.Module], list[nn.Module], list[nn.Module]]:
        """The model's first block where the stage holds it, the blocks between first and last, and the last."""
        last = len(self.model.blocks) - 1
        first = [self.blocks[str(number)] for number in self.numbers if number == 0]
        layers = [self.blocks[str(number)] for number in self.numbers if 0 < number < last]
        return first, layers, [self.blocks[str(number)] for number in self.numbers if number == last]

    def replace_layers(self, forward_of: Callable[..., Callable[[Tensor, Draws | None], Tensor]]) -> None:
        """Gives each layer the forward `forward_of(layer, recomputes=)`, which sees to its recomputation itself."""
        for layer in self.layers:
            layer.forward = forward_of(layer, recomputes=self._recomputes)
        self._recomputes = False

    def named_places(self) -> Iterator[tuple[str, nn.Module]]:
        """Every module with the name that its parameters have in checkpoints."""
        yield "", self
        for number in self.numbers:
            prefix = self.model.blocks[number].prefix
            for name, module in self.blocks[str(number)].named_modules():
                yield prefix + name if name else prefix.rstrip("."), module

    def named_tensors(self) -> Iterator[tuple[TensorSpec, nn.Parameter]]:
        """Every parameter with its declaration, a tied one that lies here twice once."""
        seen: set[int] = set()
        for number in self.numbers:
            block = self.model.blocks[number]
            specs = {spec.name: spec for spec in block.tensors}
            for name, param in self.blocks[str(number)].named_parameters():
                if id(param) not in seen:
                    seen.add(id(param))
                    yield specs[block.prefix + name], param

    def tie(self) -> None:
        """Makes tied tensors of blocks that lie here together one parameter."""
        held: dict[str, nn.Parameter] = {}
        for number in self.numbers:
            block = self.model.blocks[number]
            for spec in block.tensors:
                owner, name = self._owner(number, spec.name.removeprefix(block.prefix))
                if spec.tied_to in held:
                    setattr(owner, name, held[spec.tied_to])
                held[spec.name] = getattr(owner, name)

    def _owner(self, number: int, name: str) -> tuple[nn.Module, str]:
        """The module that has the parameter `name` of a block, and its name there."""
        path, _, last = name.rpartition(".")
        return self.blocks[str(number)].get_submodule(path), last


def _require_declared(block: Block, module: nn.Module, axis: TensorAxis | None) -> None:
    """Raises ConfigError C116 unless the block's parameters are the declared parts, name by name."""
    tp, tp_rank = (1, 0) if axis is None else (axis.size, axis.group_rank)
    declared = {spec.name: spec.local_shape(tp, tp_rank) for spec in block.tensors}
    found = {block.prefix + name: tuple(param.shape) for name, param in module.named_parameters()}
    for name in sorted({*declared, *found}):
        if declared.get(name) != found.get(name):
            raise _differs(block, name, declared, found, tp)


def _differs(
    block: Block, name: str, declared: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], tp: int
) -> ConfigError:
    def text(shapes: Mapping[str, tuple[int, ...]]) -> str:
        return f"a part of shape {shapes[name]} over tp {tp}" if name in shapes else "no such parameter"

    return ConfigError(
        f"{name} of block {block.name} is not what the model declares",
        code="C116",
        where="model.family",
        expected=f"{text(declared)} (declared)",
        found=f"{text(found)} (in the module)",
        next="declare each parameter in describe.py with the part that modules.py builds: docs/add_a_family.md",
    )

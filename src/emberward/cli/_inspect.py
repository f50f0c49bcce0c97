"""``emberward inspect``: one tensor by name, of a run's save or of the running job."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from emberward import checkpoint
from emberward.checkpoint import InspectedTensor
from emberward.cli._checkpoint import find_save
from emberward.cli._console import Screen
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._inspect_live import look_at
from emberward.cli._named_run import DEFAULT_RUNS, RunsOption, require_run
from emberward.findings import ConfigError
from emberward.report import RunFolder

PARTS = ("model/", "optim/exp_avg/", "optim/exp_avg_sq/")
"""What a parameter's name may have in front of it in a save: its value and its moments."""
_SHOWN_PIECES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions:
    """What the person asked for."""

    path: Path
    name: str
    step: int | None
    num_values: int
    runs: Path
    is_live: bool = False
    within_s: float | None = None


def inspect_verb(options: InspectOptions, screen: Screen) -> int:
    """Shows the tensor, of a parameter its moments as well; 0. Raises ConfigError K102 with the nearest names, and
    C118 where a running job is asked for and does not answer."""
    if options.is_live:
        return _show_live(options, screen)
    if options.within_s is not None:
        raise _contradiction("--within", "the wait for a running job: --live")
    save = find_save(options.path, options.runs)
    if options.step is not None:
        save = _of_step(save, options.step)
    known = checkpoint.read_manifest(save).tensors
    names = [part + options.name for part in PARTS if part + options.name in known]
    if options.name in known or not names:
        names = [options.name if options.name.startswith(("model/", "optim/")) else f"model/{options.name}"]
    tensors = _shown([checkpoint.inspect_tensor(save, name) for name in names], options, screen)
    screen.document([], save=str(save), tensors=tensors)
    return 0


def _show_live(options: InspectOptions, screen: Screen) -> int:
    if options.step is not None:
        raise _contradiction("--step", "the newest numbers of a running job, or --step of a save")
    folder = RunFolder(path=require_run(options.path, options.runs, verb="inspect"))
    seen = look_at(folder, options.name, within_s=options.within_s)
    tensors = _shown(seen.tensors, options, screen)
    screen.document([], save=None, run=str(folder.path), step=seen.step, tensors=tensors)
    return 0


def _shown(found: Sequence[InspectedTensor], options: InspectOptions, screen: Screen) -> list[dict[str, Any]]:
    """The tensors as JSON, said to people too."""
    tensors = [each.to_json(num_values=options.num_values) for each in found]
    for each in tensors:
        for line in inspection_lines(each):
            screen.say(line)
    return tensors


def _contradiction(option: str, expected: str) -> ConfigError:
    return ConfigError(
        f"{option} does not go with the rest of the command",
        code="C113",
        where="command line",
        expected=expected,
        found=option,
        next=f"leave {option} out",
    )


def _of_step(save: Path, step: int) -> Path:
    """The run's save of that step. Raises ConfigError K102 with those that there are."""
    saves = checkpoint.list_checkpoints(save.parent)
    for each in saves:
        if each.step == step:
            return each.path
    raise ConfigError(
        f"there is no save of step {step}",
        code="K102",
        where=str(save.parent),
        expected=f"one of {', '.join(str(each.step) for each in saves)}",
        found=str(step),
        next=f"emberward checkpoint ls {save.parent}",
    )


def inspection_lines(data: dict[str, Any]) -> list[str]:
    """A tensor for people."""
    tensor = data["tensor"]
    shape = " x ".join(map(str, tensor["shape"])) or "scalar"
    lines = [f"{tensor['name']}   {tensor['dtype']} {shape}, step {data['step']}, digest {tensor['digest']}"]
    if data["min"] is not None:
        lines.append(
            f"  norm {data['norm']:.6g}   min {data['min']:.6g}   max {data['max']:.6g}   mean {data['mean']:.6g}   "
            f"{data['num_zeros']:,} of {data['num_elements']:,} are zero"
        )
    if data["num_not_finite"]:
        lines.append(f"  {data['num_not_finite']:,} of {data['num_elements']:,} are not finite")
    values = " ".join(value if isinstance(value, str) else f"{value:.6g}" for value in data["values"])
    lines.append(f"  values {values}{' ...' if len(data['values']) < data['num_elements'] else ''}")
    pieces = tensor["pieces"]
    for piece in pieces[:_SHOWN_PIECES]:
        box = " x ".join(f"{start}:{stop}" for start, stop in piece["box"]) or "whole"
        lines.append(f"  [{box}] {'in' if data['save'] is not None else 'on'} {piece['file']}")
    if len(pieces) > _SHOWN_PIECES:
        lines.append(f"  and {len(pieces) - _SHOWN_PIECES} more pieces: --json lists them")
    return lines


def inspect(
    run: Annotated[Path, typer.Argument(help="A run (its newest save), or a save.")],
    name: Annotated[str, typer.Argument(help="A parameter's name, or a tensor's as checkpoint show has it.")],
    step: Annotated[int | None, typer.Option("--step", help="The save of this step, not the newest.")] = None,
    num_values: Annotated[int, typer.Option("--values", min=0, help="How many values to show.")] = 8,
    is_live: Annotated[bool, typer.Option("--live", help="As the running job's ranks hold it, not its save.")] = False,
    within: Annotated[float | None, typer.Option("--within", min=0, help="With --live: seconds to wait.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """A parameter of a run's save or of the running job: values, norms, moments, and who holds which part."""
    options = InspectOptions(
        path=run, name=name, step=step, num_values=num_values, runs=runs, is_live=is_live, within_s=within
    )
    guarded(lambda screen: inspect_verb(options, screen), is_json=is_json)


def add_to(app: typer.Typer) -> None:
    """Makes it a verb of the program."""
    app.command(
        "inspect",
        epilog=examples(
            "emberward inspect runs/bloom_tiny blocks.0.mlp.up.weight",
            "emberward inspect runs/bloom_tiny blocks.1.mlp.up.bias --step 40 --json",
            "emberward inspect runs/bloom_tiny blocks.0.attention.qkv.weight --live",
        ),
    )(inspect)

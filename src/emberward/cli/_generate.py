"""``emberward generate``: the last save of a run writes text."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from emberward.cli._checkpoint import find_save
from emberward.cli._console import Screen
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._named_run import DEFAULT_RUNS, RunArgument, RunsOption
from emberward.findings import ConfigError
from emberward.recipe import read_resolved
from emberward.report import RunFolder, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """What the person asked for. `path` is a run's folder, or one of its saves."""

    path: Path
    prompt: str
    num_tokens: int
    seed: int
    temperature: float
    top_k: int | None
    runs: Path = DEFAULT_RUNS


def generate(options: GenerateOptions, screen: Screen) -> int:
    """Writes the prompt and what the model writes after it, as it comes; 0. Blocks; loads torch."""
    if options.temperature < 0:
        raise ConfigError(
            "there is no negative temperature",
            code="C113",
            where="--temperature",
            expected="0 for the likeliest token, or more",
            found=f"{options.temperature:g}",
            next="--greedy takes the likeliest token each time",
        )
    save = find_save(options.path, options.runs)
    folder = RunFolder(path=save.parent.parent)
    recipe = read_resolved(folder.config).recipe
    from emberward.rank import Sampling, write_text  # torch: imported for this verb alone

    sampling: Sampling = Sampling(
        num_tokens=options.num_tokens, seed=options.seed, temperature=options.temperature, top_k=options.top_k
    )
    written = []
    stream = sys.stderr if screen.is_json else sys.stdout
    stream.write(printable(options.prompt))
    for piece in write_text(recipe, save, options.prompt, sampling):
        written.append(piece)
        stream.write(printable(piece))
        stream.flush()
    stream.write("\n")
    screen.document([], save=str(save), prompt=options.prompt, text="".join(written), seed=options.seed)
    return 0


def generate_verb(
    run: RunArgument,
    prompt: Annotated[str, typer.Argument(help="The text that is continued.")],
    num_tokens: Annotated[int, typer.Option("--tokens", min=1, help="Tokens to write at most.")] = 200,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the likeliest token each time.")] = False,
    temperature: Annotated[float, typer.Option("--temperature", help="Lower is likelier text; 0 is --greedy.")] = 0.8,
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="Draw among this many likeliest.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    seed: Annotated[int, typer.Option("--seed", help="The same seed writes the same text.")] = 1234,
    is_json: JsonOption = False,
) -> None:
    """Let the last save of a run write text. One process, whatever the layout that it was trained on."""
    options = GenerateOptions(
        path=run,
        prompt=prompt,
        num_tokens=num_tokens,
        seed=seed,
        temperature=0.0 if greedy else temperature,
        top_k=top_k,
        runs=runs,
    )
    guarded(lambda screen: generate(options, screen), is_json=is_json)


def add_to(app: typer.Typer) -> None:
    """Makes it a verb of the program."""
    app.command(
        "generate",
        epilog=examples(
            'emberward generate runs/bloom_tiny "def "',
            'emberward generate runs/bloom_tiny "The" --temperature 0.5 --top-k 40',
        ),
    )(generate_verb)

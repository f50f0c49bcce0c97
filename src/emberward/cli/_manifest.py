"""``emberward manifest kubernetes|torchx``: a recipe as a job of a cluster's own scheduler."""

import shlex
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from emberward.cli._console import Screen
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.data import open_tokenizer
from emberward.findings import ConfigError
from emberward.manifests import TrainingJob, kubernetes_manifest, torchx_component
from emberward.recipe import load_recipe, resolve


class Scheduler(StrEnum):
    """Whose form is written."""

    KUBERNETES = "kubernetes"
    TORCHX = "torchx"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """What the person asked for. `to`: the file to write, None for standard output."""

    scheduler: Scheduler
    job: TrainingJob
    claim: str
    to: Path | None


def write_manifest(options: ManifestOptions, screen: Screen) -> int:
    """0 once the text is written. Nothing is written for a recipe that could not train on these ranks."""
    job = options.job
    if not (job.shared.is_absolute() and job.runs.is_relative_to(job.shared)):
        raise ConfigError(
            "the nodes would not share the run's folder",
            code="C113",
            where=f"--runs {job.runs}",
            expected=f"a path below --shared {job.shared}, which begins with /",
            found=str(job.runs),
            next=f"--shared /shared --runs /shared/{job.runs.name}",
        )
    loaded = load_recipe(job.recipe, job.overrides)
    tokenizer = open_tokenizer(loaded.recipe.data.tokenizer)
    resolve(loaded, num_ranks=job.num_nodes * job.ranks_per_node, tokenizer_size=tokenizer.size)
    is_kubernetes = options.scheduler is Scheduler.KUBERNETES
    text = kubernetes_manifest(job, claim=options.claim) if is_kubernetes else torchx_component(job)
    if options.to is None:
        screen.say(text)
    else:
        options.to.write_text(text, encoding="utf-8")
        start = f"kubectl apply -f {options.to}" if is_kubernetes else f"torchx run --scheduler NAME {options.to}:train"
        screen.say(f"{'written':<11} {options.to}")
        screen.say(f"{'start it':<11} {start}")
    screen.document(
        [], scheduler=options.scheduler.value, manifest=text, file=None if options.to is None else str(options.to)
    )
    return 0


MANIFEST_EPILOG = examples(
    "emberward manifest kubernetes my_recipe.py --nodes 4 --ranks-per-node 8 --gpus-per-node 8 --image reg/train:1",
    "emberward manifest torchx bloom_tiny --nodes 2 --image reg/train:1 --to job.py",
)


def manifest_verb(
    context: typer.Context,
    scheduler: Annotated[Scheduler, typer.Argument(help="Whose form: torchx hands it to Ray, AWS Batch and others.")],
    recipe: Annotated[str, typer.Argument(help="A preset, or a recipe's path in the image or below --shared.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Keys of the recipe: a.b=c, or --a.b c.")
    ] = None,
    image: Annotated[
        str, typer.Option("--image", help="Container image with Emberward and torch in it.")
    ] = "emberward",
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Nodes.")] = 1,
    ranks_per_node: Annotated[int, typer.Option("--ranks-per-node", min=1, help="Ranks on each node.")] = 1,
    gpus_per_node: Annotated[int | None, typer.Option("--gpus-per-node", min=1, help="GPUs of each.")] = None,
    cpus_per_node: Annotated[int | None, typer.Option("--cpus-per-node", min=1, help="Processors of each.")] = None,
    memory_gib: Annotated[int | None, typer.Option("--memory-gib", min=1, help="GiB of memory of each.")] = None,
    shared: Annotated[str, typer.Option("--shared", help="The file system that all nodes share.")] = "/shared",
    runs: Annotated[str, typer.Option("--runs", help="Where run folders lie, below --shared.")] = "/shared/runs",
    claim: Annotated[str, typer.Option("--claim", help="Kubernetes: the volume claim that is --shared.")] = "shared",
    restarts: Annotated[int, typer.Option("--restarts", min=0, help="Restarts after a failure.")] = 3,
    grace_s: Annotated[int, typer.Option("--grace-s", min=1, help="Seconds that ranks have to save.")] = 300,
    to: Annotated[Path | None, typer.Option("--to", help="The file to write; else standard output.")] = None,
    is_json: JsonOption = False,
) -> None:
    """Write a recipe as a job of a cluster's own scheduler: Kubernetes, or torchx."""
    given = (*(overrides or ()), *context.args)

    def work(screen: Screen) -> int:
        sizes = ("--nodes", str(nodes), "--ranks-per-node", str(ranks_per_node), "--image", image)
        job = TrainingJob(
            name=load_recipe(recipe, given).recipe.name,
            recipe=recipe,
            overrides=given,
            num_nodes=nodes,
            ranks_per_node=ranks_per_node,
            image=image,
            shared=PurePosixPath(shared),
            runs=PurePosixPath(runs),
            typed=shlex.join(["emberward", "manifest", scheduler.value, recipe, *given, *sizes]),
            gpus_per_node=gpus_per_node,
            cpus_per_node=cpus_per_node,
            memory_gib=memory_gib,
            restarts=restarts,
            grace_s=grace_s,
        )
        return write_manifest(ManifestOptions(scheduler=scheduler, job=job, claim=claim, to=to), screen)

    guarded(work, is_json=is_json)


def add_to(app: typer.Typer) -> None:
    """Makes it a verb of the program."""
    app.command(
        "manifest",
        epilog=MANIFEST_EPILOG,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": True},
    )(manifest_verb)

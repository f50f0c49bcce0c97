"""The program: its verbs, and what every verb does with an error."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from emberward import __version__
from emberward.cli._called import called_as
from emberward.cli._check import CheckOptions, check_verb
from emberward.cli._check_page import write_check_page
from emberward.cli._checkpoint_app import checkpoint_app
from emberward.cli._console import Screen
from emberward.cli._diagnose import diagnose
from emberward.cli._doctor import DOCTOR_EPILOG, doctor_verb
from emberward.cli._examine import ExamineOptions, examine
from emberward.cli._examples import examples
from emberward.cli._explain import ExplainOptions, explain_verb
from emberward.cli._generate import GenerateOptions, generate
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._hosts import HostOptions
from emberward.cli._incident import incident_app
from emberward.cli._inspect import InspectOptions, inspect_verb
from emberward.cli._manifest import MANIFEST_EPILOG, manifest_verb
from emberward.cli._named_run import DEFAULT_RUNS, RunArgument, RunsOption
from emberward.cli._profile import profile_verb
from emberward.cli._rewind import require_one_intent, rewind_options
from emberward.cli._run import (
    ActAfterOption,
    KillSwitchOption,
    MaxSilenceOption,
    NoRecordOption,
    NotifyOption,
    oversight_of,
    run_verb,
)
from emberward.cli._slurm import slurm_app
from emberward.cli._train import REPLACE_SLOW_S, TrainOptions, train
from emberward.cli._train_node import Rendezvous, train_on_node
from emberward.cli._window_app import add_window_verbs
from emberward.cli._words import PlainGroup
from emberward.runs import Intent
from emberward.supervise import ACT_AFTER_S

app = typer.Typer(
    name="emberward",
    help="Train large models across many accelerators, and prove, watch and explain every step.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    cls=PlainGroup,
)
app.add_typer(checkpoint_app, name="checkpoint", cls=PlainGroup)
app.add_typer(incident_app, name="incident", cls=PlainGroup)
app.add_typer(slurm_app, name="slurm", cls=PlainGroup)

HardwareOption = Annotated[
    str | None, typer.Option("--hardware", help="Predict a step's time on a100, h100, h200, ...")
]
MasterOption = Annotated[str | None, typer.Option("--master-addr", help="Node 0's address.")]
MasterPortOption = Annotated[int | None, typer.Option("--master-port", help="Node 0's port.")]
BackendOption = Annotated[
    str | None, typer.Option("--rdzv-backend", help="static; or c10d, for nodes that come and go.")
]
EndpointOption = Annotated[str | None, typer.Option("--rdzv-endpoint", help="HOST:PORT where the nodes meet.")]
RdzvIdOption = Annotated[str | None, typer.Option("--rdzv-id", help="Of this job alone.")]
RdzvConfOption = Annotated[str | None, typer.Option("--rdzv-conf", help="torchrun's own: a=b,c=d.")]
MaxRestartsOption = Annotated[
    int | None, typer.Option("--max-restarts", min=0, help="torchrun's own, within one attempt.")
]
LocalAddrOption = Annotated[str | None, typer.Option("--local-addr", help="This node's address on the job's link.")]
VerboseOption = Annotated[
    bool, typer.Option("-v", "--verbose", help="Also show the plan in full and what the proof assumes.")
]


@app.command(
    "train",
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "allow_interspersed_args": True,
        # torchrun takes --node_rank for --node-rank; a recipe's own keys are unknown here and stay as they are.
        "token_normalize_func": lambda word: word.replace("_", "-"),
    },
    epilog=examples(
        "emberward train bloom_tiny --ranks 2 data.train=my.txt",
        "emberward train recipes/bloom_tiny.py steps=300 --optim.lr 1e-3 --fresh",
        more="Every key of a recipe: docs/configuration.md; those of one, with their values: train RECIPE --dry -v.",
    ),
)
def train_verb(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="A preset, file.py[:function], module:function, .yaml or .toml.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Keys of the recipe: a.b=c, or --a.b c.")
    ] = None,
    ranks: Annotated[int | None, typer.Option("--ranks", help="Number of ranks on this machine.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start a new run.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the last run, or with --run-id's.")] = False,
    run_id: Annotated[str | None, typer.Option("--run-id", help="Which run to resume.")] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Check and show everything, start nothing.")] = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Start without proving the recipe first.")] = False,
    restarts: Annotated[int, typer.Option("--restarts", min=0, help="How often to start again after a death.")] = 0,
    hardware: HardwareOption = None,
    grace_s: Annotated[
        float, typer.Option("--grace-s", min=0.0, help="Seconds that ranks have to save after a stop.")
    ] = 120.0,
    act_after_s: ActAfterOption = ACT_AFTER_S,
    max_silence_s: MaxSilenceOption = None,
    notify: NotifyOption = None,
    kill_switch: KillSwitchOption = None,
    no_record: NoRecordOption = False,
    hosts: Annotated[str | None, typer.Option("--hosts", help="Train on these: A,B or A=10.0.0.1,B=10.0.0.2.")] = None,
    launcher: Annotated[
        str | None, typer.Option("--launcher", help="How hosts are reached: ssh, slurm, local, or words with {host}.")
    ] = None,
    nnodes: Annotated[
        str | None, typer.Option("--nnodes", help="Hosts that train, N or MIN:MAX; the others stand by.")
    ] = None,
    nproc: Annotated[int, typer.Option("--nproc-per-node", min=1, help="Ranks on each host.")] = 1,
    node_rank: Annotated[
        int | None,
        typer.Option("--node-rank", min=0, help="Its number: the command is given on each."),
    ] = None,
    master_addr: MasterOption = None,
    master_port: MasterPortOption = None,
    rdzv_backend: BackendOption = None,
    rdzv_endpoint: EndpointOption = None,
    rdzv_id: RdzvIdOption = None,
    rdzv_conf: RdzvConfOption = None,
    max_restarts: MaxRestartsOption = None,
    local_addr: LocalAddrOption = None,
    host: Annotated[str | None, typer.Option("--host", help="What this node is called; else its own name.")] = None,
    min_hosts: Annotated[int | None, typer.Option("--min-hosts", min=1, help="Go on with so few hosts.")] = None,
    screen_first: Annotated[
        bool, typer.Option("--screen", help="Test the hosts first, 30 s at most, and suspects after a failure.")
    ] = False,
    replace_slow_s: Annotated[
        float,
        typer.Option("--replace-slow", min=0.0, help="A spare takes the place of a host slow for so many seconds."),
    ] = REPLACE_SLOW_S,
    rewind: Annotated[int | None, typer.Option("--rewind", help="Go back to this step's save, on from there.")] = None,
    skip_samples: Annotated[int | None, typer.Option("--skip-samples", min=0, help="Samples to leave out.")] = None,
    lr_scale: Annotated[float | None, typer.Option("--lr-scale", help="Learning-rate factor after a rewind.")] = None,
    for_steps: Annotated[int | None, typer.Option("--for-steps", min=1, help="Steps with that factor.")] = None,
    undo_rewind: Annotated[bool, typer.Option("--undo-rewind", help="Undo the last rewind.")] = False,
    why: Annotated[str | None, typer.Option("--why", help="Why, for the run's diary.")] = None,
    verbose: VerboseOption = False,
    is_json: JsonOption = False,
) -> None:
    """Check a recipe, launch it, supervise it, resume it by itself, end with a summary."""
    intent = Intent.FRESH if fresh else Intent.RESUME if resume or run_id is not None else Intent.AUTO
    rendezvous = Rendezvous(
        nnodes=nnodes,
        nproc_per_node=nproc,
        node_rank=node_rank,
        master_addr=master_addr,
        master_port=master_port,
        rdzv_backend=rdzv_backend,
        rdzv_endpoint=rdzv_endpoint,
        rdzv_id=rdzv_id,
        rdzv_conf=rdzv_conf,
        max_restarts=max_restarts,
        local_addr=local_addr,
        host=host,
    )
    options = TrainOptions(
        recipe=recipe,
        overrides=(*(overrides or ()), *context.args),
        num_ranks=ranks,
        runs=runs,
        intent=intent,
        run_id=run_id,
        is_dry=dry,
        is_checked=not no_check,
        grace_s=grace_s,
        max_restarts=restarts,
        hardware=hardware,
        is_verbose=verbose,
        is_screened=screen_first,
        environment=dict(os.environ),
        oversight=oversight_of(
            act_after_s=act_after_s, max_silence_s=max_silence_s, notify=notify, no_record=no_record
        ),
        kill_switch=None if kill_switch is None else kill_switch.absolute(),
        program=called_as(),
        option_names=_option_names(context),
        replace_slow_s=replace_slow_s,
        hosts=None
        if hosts is None and launcher is None
        else HostOptions(
            hosts=hosts,
            launcher=launcher or "ssh",
            nnodes=nnodes,
            ranks_per_host=nproc,
            min_hosts=min_hosts,
            environment=dict(os.environ),
        ),
    )

    def run(screen: Screen) -> int:
        require_one_intent(is_fresh=fresh, is_resume=resume, run_id=run_id)
        asked = rewind_options(
            rewind,
            skip_samples=skip_samples,
            lr_scale=lr_scale,
            for_steps=for_steps,
            is_undone=undo_rewind,
            is_fresh=fresh,
            why=why,
        )
        wanted = replace(options, rewind=asked)
        # A number of nodes, and no way to reach them: this is one of them.
        is_alone = nnodes is not None and options.hosts is None
        return train_on_node(wanted, rendezvous, screen) if rendezvous.is_asked or is_alone else train(wanted, screen)

    guarded(run, is_json=is_json)


app.command(
    "run",
    context_settings={"allow_extra_args": True, "allow_interspersed_args": False},
    epilog=examples(
        "emberward run -- torchrun --nproc-per-node 8 train.py",
        "emberward run --restarts 3 --name mine -- python train.py",
    ),
)(run_verb)


@app.command(
    "check",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog=examples(
        "emberward check bloom_tiny --ranks 8",
        "emberward check --nproc 4 -- train.py --epochs 1",
        "emberward check runs/bloom_tiny/ID",
    ),
)
def _check(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WHAT", help="A recipe and its keys, traces, a run, or, after --, a script."),
    ] = None,
    ranks: Annotated[int | None, typer.Option("--ranks", help="Number of ranks of the recipe.")] = None,
    all_ranks: Annotated[bool, typer.Option("--all-ranks", help="Run every rank dry, not one of each role.")] = False,
    hardware: HardwareOption = None,
    boxing: Annotated[Path | None, typer.Option("--boxing-csv", help="Write every change of layout here.")] = None,
    nproc: Annotated[int | None, typer.Option("--nproc", min=1, help="Examine a script on this many ranks.")] = None,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="Optimizer steps of a script.")] = None,
    time_limit_s: Annotated[float, typer.Option("--time-limit", help="Seconds for a script.")] = 200.0,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write verdict, findings and pictures as this one file.")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Prove a recipe before its launch, judge traces of a run, or, with --nproc, examine an unmodified script."""
    given = (*(words or ()), *context.args)

    def checked(verb: Callable[[Screen], int], screen: Screen) -> int:
        code = verb(screen)
        if html is not None:
            write_check_page(" ".join(given), html, screen)
        return code

    if nproc is not None:
        script = ExamineOptions(
            words=given,
            num_ranks=nproc,
            max_steps=max_steps,
            time_limit_s=time_limit_s,
            environment=dict(os.environ),
        )
        guarded(lambda screen: checked(lambda to: examine(script, to), screen), is_json=is_json)
    options = CheckOptions(
        words=given,
        num_ranks=ranks,
        all_ranks=all_ranks,
        hardware=hardware,
        boxing_csv=boxing,
        runs=runs,
        environment=dict(os.environ),
        program=called_as(),
        option_names=_option_names(context),
    )
    guarded(lambda screen: checked(lambda to: check_verb(options, to), screen), is_json=is_json)


@app.command(
    "explain",
    epilog=examples(
        "emberward explain 12345",
        "emberward explain /tmp/nccl_trace_rank_* logs/",
        "emberward explain runs/train/ID",
    ),
)
def _explain(
    paths: Annotated[
        list[str],
        typer.Argument(help="Process numbers of a job that hangs; or dumps, stacks, logs, folders."),
    ],
    sources: Annotated[list[Path] | None, typer.Option("--source", help="Folder with the program's files.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Say who stopped a job and why: a job that hangs now, or the files that one left. Two folders are compared."""
    options = ExplainOptions(paths=tuple(paths), sources=tuple(sources or ()), runs=runs)
    guarded(lambda screen: explain_verb(options, screen), is_json=is_json)


app.command(
    "profile",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog=examples(
        "emberward profile -- torchrun --nproc-per-node 2 train.py",
        "emberward profile bloom_tiny --ranks 2 steps=60 data.train=my.txt",
        "emberward profile runs/train",
    ),
)(profile_verb)


app.command(
    "manifest",
    epilog=MANIFEST_EPILOG,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": True},
)(manifest_verb)
app.command("doctor", epilog=DOCTOR_EPILOG)(doctor_verb)


add_window_verbs(app)


@app.command(
    "inspect",
    epilog=examples(
        "emberward inspect runs/bloom_tiny blocks.0.mlp.up.weight",
        "emberward inspect runs/bloom_tiny blocks.1.mlp.up.bias --step 40 --json",
        "emberward inspect runs/bloom_tiny blocks.0.attention.qkv.weight --live",
    ),
)
def _inspect(
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


@app.command(
    "generate",
    epilog=examples(
        'emberward generate runs/bloom_tiny "def "',
        'emberward generate runs/bloom_tiny "The" --temperature 0.5 --top-k 40',
    ),
)
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


def _option_names(context: typer.Context) -> tuple[str, ...]:
    """The long options of the command that runs."""
    return tuple(name for param in context.command.params for name in param.opts if name.startswith("--"))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"emberward {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
    is_diagnosed: Annotated[
        bool, typer.Option("--diagnose", help="Say what works on this machine, what will not, and why.")
    ] = False,
    is_json: Annotated[bool, typer.Option("--json", help="With --diagnose: one JSON document.")] = False,
) -> None:
    """Nothing of its own: the verbs do the work."""
    if is_diagnosed and context.invoked_subcommand is None:
        guarded(diagnose, is_json=is_json)
    if context.invoked_subcommand is None or is_diagnosed or is_json:
        raise typer.BadParameter("name a verb, or --diagnose alone")

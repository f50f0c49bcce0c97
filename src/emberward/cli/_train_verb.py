"""``emberward train``: its words."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from emberward.cli._called import called_as, option_names
from emberward.cli._console import Screen
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._hosts import HostOptions
from emberward.cli._named_run import DEFAULT_RUNS, RunsOption
from emberward.cli._preflight import HardwareOption
from emberward.cli._rewind import require_one_intent, rewind_options
from emberward.cli._run import (
    ActAfterOption,
    KillSwitchOption,
    MaxSilenceOption,
    NoRecordOption,
    NotifyOption,
    oversight_of,
)
from emberward.cli._train import REPLACE_SLOW_S, TrainOptions, train
from emberward.cli._train_node import Rendezvous, train_on_node
from emberward.runs import Intent
from emberward.supervise import ACT_AFTER_S

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
        option_names=option_names(context),
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


def add_to(app: typer.Typer) -> None:
    """Makes it a verb of the program."""
    app.command(
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
            more="Every key of a recipe: docs/configuration.md; "
            "those of one, with their values: train RECIPE --dry -v.",
        ),
    )(train_verb)

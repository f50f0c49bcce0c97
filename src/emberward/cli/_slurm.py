"""``emberward slurm submit|status|pulse|drain``: a chain of SLURM jobs that trains one recipe."""

import dataclasses
import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from emberward.cli._console import Screen
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._hosts import still_out
from emberward.cli._named_run import DEFAULT_RUNS, RunsOption
from emberward.cli._run import ActAfterOption
from emberward.cli._slurm_pulse import PulseOptions, follow, show_status
from emberward.cli._words import PlainGroup
from emberward.data import open_tokenizer
from emberward.findings import ConfigError
from emberward.recipe import load_recipe, resolve
from emberward.report import RunFolder
from emberward.runs import left_out, require_no_kill_switch
from emberward.slurm import (
    JobScript,
    Resources,
    Slurm,
    read_nodes,
    record_job,
    script_text,
    ticket_text,
    usable_nodes,
)
from emberward.supervise import ACT_AFTER_S, absolute

slurm_app = typer.Typer(
    help="Train under SLURM: chains of jobs, PULSE lines, nodes to drain.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
MINUTES = re.compile(r"\d+(-\d+(:\d+(:\d+)?)?|(:\d+){0,2})")
"""What sbatch(1) takes as a time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """What the person asked for."""

    recipe: str
    overrides: tuple[str, ...]
    runs: Path
    resources: Resources
    is_dry: bool
    environment: Mapping[str, str]
    max_restarts: int = 0
    """Restarts within a job, after which the next of the chain goes on."""
    act_after_s: float = ACT_AFTER_S


def submit(options: SubmitOptions, screen: Screen) -> int:
    """0 once SLURM has taken the chain. Nothing is submitted for a recipe or options that cannot train."""
    asked = options.resources
    if asked.time is not None and MINUTES.fullmatch(asked.time) is None:
        raise ConfigError(
            "the time limit is not understood",
            code="C113",
            where=f"--time {asked.time}",
            expected="minutes, hours:minutes:seconds, or days-hours",
            found=asked.time,
            next="emberward slurm submit RECIPE --nodes 2 --time 20:00:00",
        )
    loaded = load_recipe(options.recipe, options.overrides)
    tokenizer = open_tokenizer(loaded.recipe.data.tokenizer)
    recipe = resolve(loaded, num_ranks=asked.num_nodes * asked.ranks_per_node, tokenizer_size=tokenizer.size).recipe
    runs = absolute(options.runs)
    place = runs / recipe.name
    require_no_kill_switch(RunFolder(path=place / "any").kill_switch)
    slurm = Slurm(options.environment)
    out = _out(slurm, runs, asked, screen, is_dry=options.is_dry)
    asked = dataclasses.replace(asked, excluded=tuple(sorted({*asked.excluded, *out})))
    ours = (sys.executable, "-m")
    text = script_text(
        JobScript(
            name=recipe.name,
            typed=_typed(options),
            chdir=Path.cwd(),
            output=place / "slurm",
            resources=asked,
            train=_train_words(options, asked, runs),
            pulse=(*ours, "emberward", "slurm", "pulse", recipe.name, "--runs", str(runs), "--once", "--leave-out"),
        )
    )
    if options.is_dry:
        screen.say(text)
        screen.document([], script=text, excluded=list(asked.excluded))
        return 0
    folder = place / "slurm"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"submit-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.sh"
    path.write_text(text, encoding="utf-8")
    said_of_job = slurm.ask("sbatch", "--parsable", str(path)).strip()
    number = said_of_job.partition(";")[0]
    if not number.isdigit():
        raise slurm.not_understood("sbatch", said_of_job)
    record_job(
        place,
        int(number),
        {
            "script": str(path),
            "excluded": list(asked.excluded),
            "submitted_unix": time.time(),
            "typed": _typed(options),
        },
    )
    screen.say(f"{'submitted':<11} job {number}, {_chain_words(asked)}")
    screen.say(f"{'script':<11} {path}")
    screen.say(f"{'follow':<11} emberward slurm pulse {recipe.name}{_runs_word(options.runs)}")
    screen.document([], job=int(number), name=recipe.name, script=str(path), excluded=list(asked.excluded))
    return 0


def _out(slurm: Slurm, runs: Path, asked: Resources, screen: Screen, *, is_dry: bool) -> frozenset[str]:
    """The nodes that the ledger leaves out of this chain: none that it needs to begin at all."""
    if not left_out(runs):
        return frozenset()
    names = list(left_out(runs)) if is_dry else usable_nodes(slurm, partition=asked.partition)
    names = [name for name in names if name not in asked.excluded]
    return still_out(runs, names, num_needed=0 if is_dry else asked.num_nodes, screen=screen)


def _train_words(options: SubmitOptions, asked: Resources, runs: Path) -> tuple[str, ...]:
    """The training on the nodes of the job around it: as `emberward train` on several hosts."""
    return (
        *(sys.executable, "-m", "emberward", "train", options.recipe, *options.overrides),
        *("--launcher", "slurm", "--nproc-per-node", str(asked.ranks_per_node)),
        *("--restarts", str(options.max_restarts), "--act-after", f"{options.act_after_s:g}"),
        *("--grace-s", str(asked.signal_s), "--runs", str(runs)),
    )


def _chain_words(asked: Resources) -> str:
    ranks = f"{asked.num_nodes * asked.ranks_per_node} ranks on {asked.num_nodes} nodes"
    return ranks if asked.num_jobs == 1 else f"up to {asked.num_jobs} in a row, {ranks}"


def _runs_word(runs: Path) -> str:
    return "" if runs == DEFAULT_RUNS else f" --runs {shlex.quote(str(runs))}"


def _typed(options: SubmitOptions) -> str:
    """The command as it can be typed again."""
    asked = options.resources
    words = ["emberward", "slurm", "submit", options.recipe, *options.overrides, "--nodes", str(asked.num_nodes)]
    words += ["--ranks-per-node", str(asked.ranks_per_node)]
    given = (("--gpus-per-node", asked.gpus_per_node), ("--partition", asked.partition), ("--time", asked.time))
    for option, value in (*given, ("--after", asked.after)):
        words += [] if value is None else [option, str(value)]
    words += ["--chain", str(asked.num_jobs), "--signal-s", str(asked.signal_s)]
    words += ["--restarts", str(options.max_restarts), "--act-after", f"{options.act_after_s:g}"]
    words += [word for host in asked.excluded for word in ("--exclude", host)]
    words += [word for each in asked.more for word in ("--sbatch", each)]
    words += [] if options.runs == DEFAULT_RUNS else ["--runs", str(options.runs)]
    return shlex.join(words)


def drain(hosts: Sequence[str], reason: str | None, name: str | None, runs: Path, slurm: Slurm, screen: Screen) -> int:
    """0 once SLURM has drained the hosts. Where it does not let us, the ticket's text is shown and L121 raised."""
    known = left_out(runs)
    reasons = {}
    for host in hosts:
        said = known.get(host)
        found = reason or (None if said is None else said.why)
        if found is None:
            raise ConfigError(
                "there is no reason to drain this node",
                code="C113",
                where=host,
                expected="--reason TEXT, or a finding for which the host is left out",
                found="neither" if not known else f"findings on {', '.join(known)}",
                next=f"emberward slurm drain {host} --reason 'GPU 3 answers wrongly'",
            )
        reasons[host] = found
    tickets = []
    refused: ConfigError | None = None
    for host, why in reasons.items():
        try:
            slurm.ask("scontrol", "update", f"NodeName={host}", "State=DRAIN", f"Reason={why}")
        except ConfigError as error:
            if error.code != "L121":
                raise
            refused = error
            tickets.append(ticket_text(host, why, known[host].finding if host in known else None))
            continue
        (node,) = read_nodes(slurm, [host])
        screen.say(f"{host} is {node.state}: {node.reason}")
    if refused is None:
        screen.document([], drained=reasons, tickets=[])
        return 0
    screen.complain(refused.text())
    screen.say("for the ticket:\n\n" + "\n\n".join(tickets))
    screen.document([refused.to_finding()], drained={}, tickets=tickets)
    return refused.exit_code


@slurm_app.command(
    "submit",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": True},
    epilog=examples(
        "emberward slurm submit my_recipe.py --nodes 48 --ranks-per-node 8 --time 20:00:00 --chain 10",
        "emberward slurm submit bloom_tiny --nodes 2 --sbatch --account=six@gpu --dry",
    ),
)
def _submit(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="A preset, file.py[:function], module:function, .yaml or .toml.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Keys of the recipe: a.b=c, or --a.b c.")
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Nodes of a job.")] = 1,
    ranks_per_node: Annotated[int, typer.Option("--ranks-per-node", min=1, help="Ranks on each node.")] = 1,
    gpus: Annotated[int | None, typer.Option("--gpus-per-node", min=1, help="GPUs to ask for on each.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", help="SLURM's partition.")] = None,
    limit: Annotated[str | None, typer.Option("--time", help="Time limit of each job, as sbatch reads it.")] = None,
    signal_s: Annotated[
        int, typer.Option("--signal-s", min=1, max=65535, help="Seconds before the limit to begin to save.")
    ] = 300,
    chain: Annotated[int, typer.Option("--chain", min=1, help="Jobs in a row, one at a time.")] = 1,
    after: Annotated[int | None, typer.Option("--after", min=1, help="Start once this job has ended.")] = None,
    restarts: Annotated[int, typer.Option("--restarts", min=0, help="Restarts within a job after a failure.")] = 3,
    act_after_s: ActAfterOption = ACT_AFTER_S,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="A node that takes no part.")] = None,
    more: Annotated[
        list[str] | None, typer.Option("--sbatch", help="Another option of sbatch, as --account=NAME.")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    dry: Annotated[bool, typer.Option("--dry", help="Show the script, submit nothing.")] = False,
    is_json: JsonOption = False,
) -> None:
    """Submit a chain of jobs that trains a recipe: saves before the time limit, goes on, leaves out lost nodes."""
    resources = Resources(
        num_nodes=nodes,
        ranks_per_node=ranks_per_node,
        gpus_per_node=gpus,
        partition=partition,
        time=limit,
        signal_s=signal_s,
        num_jobs=chain,
        after=after,
        excluded=tuple(exclude or ()),
        more=tuple(more or ()),
    )
    options = SubmitOptions(
        recipe=recipe,
        overrides=(*(overrides or ()), *context.args),
        runs=runs,
        resources=resources,
        is_dry=dry,
        environment=dict(os.environ),
        max_restarts=restarts,
        act_after_s=act_after_s,
    )
    guarded(lambda screen: submit(options, screen), is_json=is_json)


NameArgument = Annotated[str | None, typer.Argument(help="The runs' name; every one that was submitted without it.")]


@slurm_app.command("status", epilog=examples("emberward slurm status", "emberward slurm status my_recipe --json"))
def _status(name: NameArgument = None, runs: RunsOption = DEFAULT_RUNS, is_json: JsonOption = False) -> None:
    """The jobs that were submitted, as SLURM has them now, and what their runs say."""
    slurm = Slurm(os.environ)
    guarded(lambda screen: show_status(runs, name, slurm, screen, now_unix=time.time()), is_json=is_json)


@slurm_app.command(
    "pulse",
    epilog=examples(
        "emberward slurm pulse my_recipe",
        "emberward slurm pulse my_recipe --once --notify 'mail -s pulse me'",
    ),
)
def _pulse(
    name: NameArgument = None,
    every_s: Annotated[
        float, typer.Option("--every", min=1.0, help="Seconds between lines without a change.")
    ] = 3600.0,
    once: Annotated[bool, typer.Option("--once", help="One line, for cron.")] = False,
    leave_out: Annotated[
        bool, typer.Option("--leave-out", help="Leave nodes that went down under a job out of those that wait.")
    ] = False,
    to: Annotated[Path | None, typer.Option("--to", help="Append the lines here; else beside the runs.")] = None,
    notify: Annotated[
        list[str] | None, typer.Option("--notify", help="Also to a command (JSON on its stdin) or a URL (POST).")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """PULSE lines, hourly and on change: the queue, since when, the run's last sign of life, the next job."""
    options = PulseOptions(
        name=name, runs=runs, every_s=every_s, is_once=once, leaves_out=leave_out, to=to, notify=tuple(notify or ())
    )
    guarded(lambda screen: follow(options, Slurm(os.environ), screen), is_json=is_json)


@slurm_app.command(
    "drain", epilog=examples("emberward slurm drain node17", "emberward slurm drain node17 --reason 'GPU 3 is slow'")
)
def _drain(
    hosts: Annotated[list[str], typer.Argument(metavar="HOST", help="Nodes, by SLURM's name.")],
    reason: Annotated[str | None, typer.Option("--reason", help="Why; else the finding on the host.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only findings of the runs of this name.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Take nodes out of SLURM's use, with the reason; where that is not allowed, the text for the ticket."""
    slurm = Slurm(os.environ)
    guarded(lambda screen: drain(hosts, reason, name, runs, slurm, screen), is_json=is_json)


def add_to(app: typer.Typer) -> None:
    """Makes it a verb of the program."""
    app.add_typer(slurm_app, name="slurm", cls=PlainGroup)

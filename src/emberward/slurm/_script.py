"""The batch script of a chain of jobs: written for people, who read it when something goes wrong at night."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a job asks of SLURM. `time` is SLURM's text. `signal_s`: seconds before the time limit to begin the save.

    `ranks_per_node` is also how many processors it asks for on each node. `num_jobs`: how many jobs make the chain, one
    after the other. `after`: a job that must have ended before. `more`: options of sbatch as they are, which go before
    ours.
    """

    num_nodes: int
    ranks_per_node: int
    time: str | None
    signal_s: int
    num_jobs: int
    gpus_per_node: int | None = None
    partition: str | None = None
    after: int | None = None
    excluded: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScript:
    """The script's contents. `train` and `pulse` are commands: the training on the job's nodes, and one pulse."""

    name: str
    typed: str
    chdir: Path
    output: Path
    resources: Resources
    train: tuple[str, ...]
    pulse: tuple[str, ...]


_BODY = """
# Says that this job began, and leaves out nodes that went down under the job before it.
{pulse}

# Starts one supervisor on each node with srun. SLURM's signal reaches these, and they ask the ranks to save.
{train}
code=$?

# Asks SLURM again for a while when its controller does not answer, as when it is just started again.
ask() {{
    for try in 1 2 3 4 5 6 7 8 9 10; do "$@" && return; sleep 15; done
}}
case $code in
    75) # All ranks saved after SIGTERM: at the time limit, or to make room for another job.
        ask scontrol requeue $SLURM_JOB_ID ;;
    0|2) # Done or stopped by the kill switch; 2: a mistake that each further job would meet again.
        {end_chain} ;;
esac
exit $code
"""


def script_text(script: JobScript) -> str:
    """The sbatch script, as sbatch(1) of SLURM 22.05 reads it."""
    asked = script.resources
    output = "%x-%A_%a.log" if asked.num_jobs > 1 else "%x-%j.log"
    options = [
        f"--job-name={script.name}",
        f"--chdir={script.chdir}",
        f"--output={script.output / output}",
        "--open-mode=append",
        f"--nodes={asked.num_nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={asked.ranks_per_node}",
        *_given("--gpus-per-node", asked.gpus_per_node),
        *_given("--partition", asked.partition),
        *_given("--time", asked.time),
        f"--signal=TERM@{asked.signal_s}",
        "--requeue",
        *([f"--array=1-{asked.num_jobs}%1"] if asked.num_jobs > 1 else []),
        *([] if asked.after is None else [f"--dependency=afterany:{asked.after}"]),
        *([f"--exclude={','.join(asked.excluded)}"] if asked.excluded else []),
        *asked.more,
    ]
    head = ["#!/bin/bash", f"# {script.typed}", *(f"#SBATCH {_quoted(option)}" for option in options)]
    chain = "$SLURM_ARRAY_JOB_ID" if asked.num_jobs > 1 else "$SLURM_JOB_ID"
    body = _BODY.format(
        pulse=_command(script.pulse),
        train=_command(script.train),
        end_chain=f"ask scancel --state=PENDING {chain}" if asked.num_jobs > 1 else ":",
    )
    return "\n".join(head) + "\n" + body


def _given(option: str, value: object) -> list[str]:
    return [] if value is None else [f"{option}={value}"]


def _quoted(option: str) -> str:
    """An option as sbatch reads it after #SBATCH: quotes only around blanks."""
    name, _, value = option.partition("=")
    return f'{name}="{value}"' if " " in value else option


def _command(words: Sequence[str]) -> str:
    return shlex.join(words)

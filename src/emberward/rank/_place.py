"""Who this rank is, from the environment that torchrun or srun made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from emberward.findings import ConfigError

# Below 32768, where Linux begins to give ports to outgoing connections (ip-sysctl.rst, ip_local_port_range).
FIRST_PORT, NUM_PORTS = 20000, 12768

FIRST_SPECIAL_STEP = 0xFFFFFFF0
"""Steps from here on are no srun's: batch script, interactive shell and the like (slurm.h of SLURM 22.05)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankInfo:
    """This rank among the others. `is_supervised`: Emberward's own launcher started it and reads its exit code;
    `is_relaunched`: it did so by itself, after an attempt that failed.

    `launch` names the launch, as far as its launcher does, and `attempt` tells its starts apart.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    host: str
    master: str
    port: int
    is_supervised: bool
    is_under_agent: bool
    launch: str | None = None
    attempt: str = "0"
    is_relaunched: bool = False

    @property
    def is_restart(self) -> bool:
        """Whether the same launch started this rank before: our launcher's or torchrun's restart, or a job that SLURM
        requeued."""
        return self.is_relaunched or self.attempt != "0"

    @property
    def must_host_store(self) -> bool:
        """Whether this rank serves the rendezvous store: rank 0, unless torchrun's agent serves one."""
        return self.rank == 0 and not self.is_under_agent


def read_place(environment: Mapping[str, str], *, host: str) -> RankInfo:
    """The place that the environment describes: torchrun's variables, else SLURM's, else one rank alone.

    Raises ConfigError L103 when the variables are incomplete, or those of a job of several tasks without srun. Under
    srun the first node of the step serves the store, on a port made of the job's and the step's numbers. The step's
    own variables count, not the job's: a step may have fewer nodes and tasks, and nodes different numbers of tasks.
    """
    supervised = environment.get("EMBERWARD_SUPERVISED") == "1"
    try:
        if "RANK" in environment:
            return RankInfo(
                rank=int(environment["RANK"]),
                world_size=int(environment["WORLD_SIZE"]),
                local_rank=int(environment.get("LOCAL_RANK", "0")),
                local_world_size=int(environment.get("LOCAL_WORLD_SIZE", "1")),
                host=host,
                master=environment["MASTER_ADDR"],
                port=int(environment["MASTER_PORT"]),
                is_supervised=supervised,
                is_under_agent=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
                launch=environment.get("TORCHELASTIC_RUN_ID"),
                attempt=environment.get("TORCHELASTIC_RESTART_COUNT", "0"),
                is_relaunched=supervised and environment.get("EMBERWARD_RELAUNCHED") == "1",
            )
        if "SLURM_PROCID" in environment and _is_started_by_srun(environment):
            step = int(environment["SLURM_STEP_ID"])
            tasks = tasks_per_node(environment["SLURM_STEP_TASKS_PER_NODE"])
            return RankInfo(
                rank=int(environment["SLURM_PROCID"]),
                world_size=int(environment["SLURM_STEP_NUM_TASKS"]),
                local_rank=int(environment["SLURM_LOCALID"]),
                local_world_size=tasks[int(environment["SLURM_NODEID"])],
                host=host,
                master=environment.get("MASTER_ADDR") or first_host(environment["SLURM_STEP_NODELIST"]),
                port=int(environment.get("MASTER_PORT") or _port_of(int(environment["SLURM_JOB_ID"]), step)),
                is_supervised=supervised,
                is_under_agent=False,
                launch=f"slurm job {environment['SLURM_JOB_ID']}",
                attempt=environment.get("SLURM_RESTART_COUNT", "0"),
            )
    except (KeyError, ValueError, IndexError) as error:
        raise ConfigError(
            "the launcher's environment is incomplete",
            code="L103",
            expected="torchrun's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or srun's SLURM_* variables",
            found=f"{type(error).__name__} {error}",
            next="torchrun --nproc-per-node 2 -m emberward.rank RECIPE",
        ) from error
    return RankInfo(
        rank=0,
        world_size=1,
        local_rank=0,
        local_world_size=1,
        host=host,
        master="127.0.0.1",
        port=0,
        is_supervised=supervised,
        is_under_agent=False,
    )


def _is_started_by_srun(environment: Mapping[str, str]) -> bool:
    """Whether this is a task of srun; a batch script and an interactive shell are task 0 of a step without tasks.

    Raises ConfigError L103 outside srun when the job has several tasks: one rank alone is not what was meant.
    """
    step = environment.get("SLURM_STEP_ID")
    if step is not None and int(step) < FIRST_SPECIAL_STEP:
        return True
    if int(environment.get("SLURM_NTASKS", "1")) > 1:
        raise ConfigError(
            "srun did not start this program",
            code="L103",
            where=f"job {environment.get('SLURM_JOB_ID')}, outside its steps",
            expected=f"srun, for the {environment['SLURM_NTASKS']} tasks of the job",
            found="a program of the batch script itself",
            next="srun --kill-on-bad-exit=1 python -m emberward.rank RECIPE",
        )
    return False


def _port_of(job: int, step: int) -> int:
    """The port at which the tasks of a step meet: the same for all of them, another for the next step."""
    return FIRST_PORT + (job * 31 + step) % NUM_PORTS


def tasks_per_node(text: str) -> tuple[int, ...]:
    """The number of tasks of each node from SLURM's short form: ``2(x3),1`` is (2, 2, 2, 1)."""
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if found is None:
            raise ValueError(f"not SLURM's tasks per node: {text!r}")
        counts += [int(found[1])] * int(found[2] or "1")
    return tuple(counts)


def first_host(node_list: str) -> str:
    """The first host of a SLURM node list such as ``jean-zay-iam[01-34,36-49],other2`` or ``rack[0-3]-node[1-8]``."""
    first = re.match(r"(?:[^,\[\]]|\[\d[\d,-]*\])+", node_list)
    if first is None:
        raise ValueError(f"not a SLURM node list: {node_list!r}")
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", first[0])

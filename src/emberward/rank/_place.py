"""Who this rank is, from the environment that torchrun or srun made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from emberward.findings import ConfigError

FIRST_PORT, NUM_PORTS = 20000, 20000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """This rank among the others. `is_supervised`: Emberward's own launcher started it and reads its exit code.

    `attempt` tells the starts of one launch apart.
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
    attempt: str = "0"

    @property
    def must_host_store(self) -> bool:
        """Whether this rank serves the rendezvous store: rank 0, unless torchrun's agent serves one."""
        return self.rank == 0 and not self.is_under_agent


def read_place(environment: Mapping[str, str], *, host: str) -> Place:
    """The place that the environment describes: torchrun's variables, else SLURM's, else one rank alone.

    Raises ConfigError L103 when the variables are incomplete. Under srun the first node of the list serves the store,
    on a port made of the job's number.
    """
    supervised = environment.get("EMBERWARD_SUPERVISED") == "1"
    try:
        if "RANK" in environment:
            return Place(
                rank=int(environment["RANK"]),
                world_size=int(environment["WORLD_SIZE"]),
                local_rank=int(environment.get("LOCAL_RANK", "0")),
                local_world_size=int(environment.get("LOCAL_WORLD_SIZE", "1")),
                host=host,
                master=environment["MASTER_ADDR"],
                port=int(environment["MASTER_PORT"]),
                is_supervised=supervised,
                is_under_agent=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
                attempt=environment.get("TORCHELASTIC_RESTART_COUNT", "0"),
            )
        if "SLURM_PROCID" in environment:
            job = int(environment["SLURM_JOB_ID"]) * 31 + int(environment.get("SLURM_STEP_ID", "0"))
            return Place(
                rank=int(environment["SLURM_PROCID"]),
                world_size=int(environment["SLURM_NTASKS"]),
                local_rank=int(environment["SLURM_LOCALID"]),
                local_world_size=int(environment["SLURM_NTASKS"]) // int(environment.get("SLURM_NNODES", "1")),
                host=host,
                master=environment.get("MASTER_ADDR") or first_host(environment["SLURM_STEP_NODELIST"]),
                port=int(environment.get("MASTER_PORT") or FIRST_PORT + job % NUM_PORTS),
                is_supervised=supervised,
                is_under_agent=False,
                attempt=environment.get("SLURM_RESTART_COUNT", "0"),
            )
    except (KeyError, ValueError) as error:
        raise ConfigError(
            "the launcher's environment is incomplete",
            code="L103",
            expected="torchrun's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or srun's SLURM_* variables",
            found=f"{type(error).__name__} {error}",
            next="torchrun --nproc-per-node 2 -m emberward.rank RECIPE",
        ) from error
    return Place(
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


def first_host(node_list: str) -> str:
    """The first host of a SLURM node list such as ``jean-zay-iam[01-34,36-49],other2``."""
    found = re.match(r"([^,\[]+)(?:\[(\d+)[^\]]*\])?", node_list)
    if found is None:
        raise ValueError(f"not a SLURM node list: {node_list!r}")
    return found[1] + (found[2] or "")

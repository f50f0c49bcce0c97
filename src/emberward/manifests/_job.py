"""What every scheduler is asked for, and the command that it starts on each node."""

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

NODE_RANK, HEAD, HOST, ADDRESS = "NODE_RANK", "HEAD_ADDRESS", "HOST_NAME", "HOST_ADDRESS"
"""Variables of a node's script: its number from 0, node 0's address; its machine's name and address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """A recipe on so many nodes.

    `recipe`: as ``emberward.rank`` takes it, found in the image or on the shared file system; `overrides`: ``a.b=c``.
    `runs`: an absolute path below `shared`, where every node sees the same files. `grace_s`: seconds that ranks have to
    save after the scheduler's signal. `typed`: the command that wrote the manifest.
    """

    name: str
    recipe: str
    overrides: tuple[str, ...]
    num_nodes: int
    ranks_per_node: int
    image: str
    shared: PurePosixPath
    runs: PurePosixPath
    typed: str
    gpus_per_node: int | None = None
    cpus_per_node: int | None = None
    memory_gib: int | None = None
    restarts: int = 3
    grace_s: int = 300
    port: int = 29500

    @property
    def label(self) -> str:
        """`name` as a DNS label of at most 52 characters, so that a node's number fits behind it."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:52].strip("-") or "emberward"


def node_script(job: TrainingJob) -> str:
    """What a shell runs on each node: replaces itself by the supervisor, so that it gets the scheduler's signals.

    Nothing in it is a word of the shell but the four variables.
    """
    train = shlex.join([
        *("python", "-m", "emberward", "train", job.recipe, *job.overrides, "--runs", str(job.runs)),
        *("--grace-s", str(job.grace_s), "--nnodes", str(job.num_nodes)),
        *("--nproc-per-node", str(job.ranks_per_node), "--master-port", str(job.port)),
    ])  # fmt: skip
    return (
        f"exec {train} \\\n"
        f'  --node-rank "${NODE_RANK}" --master-addr "${HEAD}" --local-addr "${ADDRESS}" --host "${HOST}"\n'
    )

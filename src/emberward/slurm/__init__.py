"""SLURM: a chain of jobs that train one recipe, what the queue says of it, and nodes that take no part. No torch.

Everything is asked of SLURM's own programs, whose options and fields are those of SLURM 22.05 and stand in its manual
pages; nothing is read from its accounting, which a site may not have.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.slurm._ask import Slurm
    from emberward.slurm._chain import Chain, chain_of, record_job
    from emberward.slurm._nodes import Node, lost_nodes, read_boots, read_nodes, ticket_text, usable_nodes
    from emberward.slurm._pulse import Memory, Pulse, RunFacts, take_pulse
    from emberward.slurm._queue import Job, State, node_names, read_queue
    from emberward.slurm._run_facts import read_facts
    from emberward.slurm._script import JobScript, Resources, script_text
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "Chain",
    "Job",
    "JobScript",
    "Memory",
    "Node",
    "Pulse",
    "Resources",
    "RunFacts",
    "Slurm",
    "State",
    "chain_of",
    "lost_nodes",
    "node_names",
    "read_boots",
    "read_facts",
    "read_nodes",
    "read_queue",
    "record_job",
    "script_text",
    "take_pulse",
    "ticket_text",
    "usable_nodes",
]

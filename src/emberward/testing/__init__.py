"""The workshop, public: real replays of traces, random programs, known disasters and their fixed twins."""

from emberward.testing._campaign import Campaign, Disagreement, judge_and_replay, run_campaign
from emberward.testing._known import Known, boxing_zeros_edge, known_disasters, launch_queue, oneflow_swin
from emberward.testing._meshes import PlantedFault, expanded, mesh_roles, plant
from emberward.testing._programs import random_program, right_program
from emberward.testing._replay import Replay, Replayer, ThreadReplayer

__all__ = [
    "Campaign",
    "Disagreement",
    "Known",
    "PlantedFault",
    "Replay",
    "Replayer",
    "ThreadReplayer",
    "boxing_zeros_edge",
    "expanded",
    "judge_and_replay",
    "known_disasters",
    "launch_queue",
    "mesh_roles",
    "oneflow_swin",
    "plant",
    "random_program",
    "right_program",
    "run_campaign",
]

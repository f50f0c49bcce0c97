"""The workshop, public: real replays of traces, random programs, known disasters and their fixed twins."""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.testing._campaign import Campaign, Disagreement, judge_and_replay, run_campaign
    from emberward.testing._cluster import ClusterSimulation, Course
    from emberward.testing._cluster_days import Days, DaysSimulation
    from emberward.testing._cluster_world import Disturbance, Trouble
    from emberward.testing._incidents import LIMIT_S, Expected, Incident, IncidentRunner, Replayed, Showing, show
    from emberward.testing._kills import MOST, SIGNALS, Killed, Moment, kill_verb, verbs
    from emberward.testing._known import Known, boxing_zeros_edge, known_disasters, launch_queue, oneflow_swin
    from emberward.testing._meshes import PlantedFault, expanded, mesh_roles, plant
    from emberward.testing._museum import INCIDENTS
    from emberward.testing._programs import random_program, right_program
    from emberward.testing._replay import Replay, Replayer, ThreadReplayer
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "INCIDENTS",
    "LIMIT_S",
    "MOST",
    "SIGNALS",
    "Campaign",
    "ClusterSimulation",
    "Course",
    "Days",
    "DaysSimulation",
    "Disagreement",
    "Disturbance",
    "Expected",
    "Incident",
    "IncidentRunner",
    "Killed",
    "Known",
    "Moment",
    "PlantedFault",
    "Replay",
    "Replayed",
    "Replayer",
    "Showing",
    "ThreadReplayer",
    "Trouble",
    "boxing_zeros_edge",
    "expanded",
    "judge_and_replay",
    "kill_verb",
    "known_disasters",
    "launch_queue",
    "mesh_roles",
    "oneflow_swin",
    "plant",
    "random_program",
    "right_program",
    "run_campaign",
    "show",
    "verbs",
]

"""Explain time: floating-point operations of a step, how near to a device's peak it came, and how long it should take.

No torch. Predictions rest on one hardware table with sources (`CLUSTERS`).
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.perf._attention import Attention
    from emberward.perf._block_time import Casts, Numerics, Recompute, Stack
    from emberward.perf._boards import PCIE_LINKS
    from emberward.perf._clusters import CLUSTERS
    from emberward.perf._flops import forward_flops, hardware_tflops, mfu, mfu_text, model_flops
    from emberward.perf._hardware import Cluster, Device, Link, NumberFormat
    from emberward.perf._links import EFA_1, EFA_2, NVLINK_2_MESH, TCPX, network
    from emberward.perf._peaks import PEAKS, Peak, peak_of
    from emberward.perf._pipeline_time import Part, Slot, Timeline, run_schedule
    from emberward.perf._predict import Prediction, predict
    from emberward.perf._step_plan import StepPlan
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "CLUSTERS",
    "EFA_1",
    "EFA_2",
    "NVLINK_2_MESH",
    "PCIE_LINKS",
    "PEAKS",
    "TCPX",
    "Attention",
    "Casts",
    "Cluster",
    "Device",
    "Link",
    "NumberFormat",
    "Numerics",
    "Part",
    "Peak",
    "Prediction",
    "Recompute",
    "Slot",
    "Stack",
    "StepPlan",
    "Timeline",
    "forward_flops",
    "hardware_tflops",
    "mfu",
    "mfu_text",
    "model_flops",
    "network",
    "peak_of",
    "predict",
    "run_schedule",
]

"""All incidents by name."""

from emberward.testing._incident_devices import ELIMINATION_GAME, GPU_7
from emberward.testing._incident_health import CLIP_BUG, FLIPPED_BIT, LOSS_SPIKE, SLOWER_STEPS
from emberward.testing._incident_jobs import BLOOM_EVAL, BLOOM_LIMBO, GPU_DIED, KILL_SWITCH, PRINT_LOSS, ZERO3_SLOW
from emberward.testing._incident_plans import SWIN_BUFFER, SWIN_LOST_ID
from emberward.testing._incident_stuck import FROZEN_HOST, GIL_HOLDER
from emberward.testing._incident_swin import SWIN_PIPELINE
from emberward.testing._incidents import Incident

INCIDENTS: tuple[Incident, ...] = (
    SWIN_BUFFER,
    SWIN_LOST_ID,
    SWIN_PIPELINE,
    BLOOM_EVAL,
    BLOOM_LIMBO,
    GPU_DIED,
    KILL_SWITCH,
    CLIP_BUG,
    LOSS_SPIKE,
    SLOWER_STEPS,
    FLIPPED_BIT,
    GIL_HOLDER,
    FROZEN_HOST,
    ELIMINATION_GAME,
    GPU_7,
    PRINT_LOSS,
    ZERO3_SLOW,
)
"""In the order of the seeds that they come from."""

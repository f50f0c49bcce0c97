"""Which folder a start uses: a run that goes on, or a new one; never a mix. No torch.

The launcher and ranks that plain torchrun or srun started decide by the same code.
"""

from emberward.runs._choose import Intent, Start, begin, choose_run, new_id, recipe_digest
from emberward.runs._data import prepare_data
from emberward.runs._kill_switch import require_no_kill_switch
from emberward.runs._left_out import host_file_name, left_out_file, read_left_out
from emberward.runs._looks import Look, LookAnswers, ask, read_answers, read_looks, write_answer, write_late
from emberward.runs._rewind import Act, Rewind, plan_rewind, read_detours, rewind, undo_rewind

__all__ = [
    "Act",
    "Intent",
    "Look",
    "LookAnswers",
    "Rewind",
    "Start",
    "ask",
    "begin",
    "choose_run",
    "host_file_name",
    "left_out_file",
    "new_id",
    "plan_rewind",
    "prepare_data",
    "read_answers",
    "read_detours",
    "read_left_out",
    "read_looks",
    "recipe_digest",
    "require_no_kill_switch",
    "rewind",
    "undo_rewind",
    "write_answer",
    "write_late",
]

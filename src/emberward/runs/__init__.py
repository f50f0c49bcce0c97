"""Which folder a start uses: a run that goes on, or a new one; never a mix. No torch.

The launcher and ranks that plain torchrun or srun started decide by the same code.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.runs._choose import Intent, Start, begin, choose_run, new_id, recipe_digest
    from emberward.runs._data import prepare_data
    from emberward.runs._inspections import (
        Inspection,
        InspectionAnswers,
        ask,
        read_answers,
        read_inspections,
        write_answer,
        write_late,
    )
    from emberward.runs._kill_switch import require_no_kill_switch
    from emberward.runs._ledger import (
        Entry,
        Record,
        admit,
        host_file_name,
        left_out,
        read_ledger,
        read_record,
        spared,
        strike,
        strike_of,
    )
    from emberward.runs._rewind import Act, Rewind, plan_rewind, read_detours, rewind, undo_rewind
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "Act",
    "Entry",
    "Inspection",
    "InspectionAnswers",
    "Intent",
    "Record",
    "Rewind",
    "Start",
    "admit",
    "ask",
    "begin",
    "choose_run",
    "host_file_name",
    "left_out",
    "new_id",
    "plan_rewind",
    "prepare_data",
    "read_answers",
    "read_detours",
    "read_inspections",
    "read_ledger",
    "read_record",
    "recipe_digest",
    "require_no_kill_switch",
    "rewind",
    "spared",
    "strike",
    "strike_of",
    "undo_rewind",
    "write_answer",
    "write_late",
]

"""Commands in texts, as the person can type them who reads the text."""

import re
import shlex

VERBS = (
    "run", "train", "check", "explain", "doctor", "checkpoint", "profile", "runs", "inspect", "generate", "incident",
    "watch", "report", "ui", "slurm", "manifest",
)  # fmt: skip
"""What follows the program's name where it is a command and not a word of a sentence."""
PROGRAM = "emberward"
_COMMAND = re.compile(rf"(?<![\w/.-]){PROGRAM}(?= (?:{'|'.join(VERBS)})\b(?![-']))")


def as_typed(text: str, program: str) -> str:
    """`text` with `program` for the name in each of its commands: a person who typed a path has to type it again."""
    return text if program == PROGRAM else _COMMAND.sub(lambda _: shlex.quote(program), text)

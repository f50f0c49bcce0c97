"""Where a process crashed, by what Python wrote while it did: `faulthandler`'s stacks, in a file beside its ring."""

from pathlib import Path

from emberward.diagnose import Frame, user_frame
from emberward.sources.dumps._stack_text import read_faulthandler

MAX_BYTES = 1 << 20


def crash_frames(path: Path) -> tuple[Frame, ...]:
    """The main thread's stack, from within; empty when it did not crash, or nothing tells. Reads `path` only."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_BYTES)
    except OSError:
        return ()
    documents = read_faulthandler(text, path=str(path)) if text else []
    mains = [process.main for document in documents if document.fatal for process in document.processes]
    stacks = [main.frames for main in mains if main is not None and user_frame(main.frames) is not None]
    return stacks[-1] if stacks else ()


def crash_site(path: Path) -> str | None:
    """The user's line in which the process was; None as above."""
    frame = user_frame(crash_frames(path))
    return None if frame is None else frame.site

"""Writing into a run's folder so that no reader ever believes half a file."""

import json
import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes the object aside, then renames it over `path`. Not synced to disk: for what a restart does not need."""
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value), encoding="utf-8")
    temporary.replace(path)


def write_once(path: Path, value: Mapping[str, Any]) -> bool:
    """Whether `path` has the object now because we wrote it; False where there was one before. Of many, one writes."""
    temporary = path.with_name(f".{os.uname().nodename}.{os.getpid()}.{threading.get_ident()}.tmp")
    write_json(temporary, value)
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Appends the object as one whole line and syncs it to disk; a line that a crash cut is closed first."""
    data = json.dumps(value).encode() + b"\n"
    with path.open("ab+") as file:
        if size := file.seek(0, os.SEEK_END):
            file.seek(size - 1)
            if file.read(1) != b"\n":
                data = b"\n" + data
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

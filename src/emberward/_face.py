"""Rooms that load what is asked for.

[Note: a face that loads what is asked for]
A room's ``__init__`` names what it gives to others within ``if TYPE_CHECKING``, and each name's file is imported when
the name is first asked for (PEP 562). A rank needs a third of the rooms' files and a verb no more; the others take
longer to load than the program takes to begin. Some need torch, and a machine without it lists, shows and converts
saves.
"""

import re
import sys
from collections.abc import Callable
from importlib import import_module

_COMMENT = re.compile(r" *#.*")
_IMPORT = re.compile(r"^    from (\S+) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)


def face_of(room: str) -> Callable[[str], object]:
    """The ``__getattr__`` of the package `room`, which is being imported: by the imports of its own text."""
    source = _COMMENT.sub("", sys.modules[room].__loader__.get_source(room))  # type: ignore[union-attr]
    homes = {
        name.strip(): file
        for file, broken, whole in _IMPORT.findall(source)
        for name in (broken or whole).split(",")
        if name.strip()
    }

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        found = getattr(import_module(homes[name]), name)
        setattr(sys.modules[room], name, found)
        return found

    return find

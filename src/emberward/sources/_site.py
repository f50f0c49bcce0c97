"""Finds the user's line: the first frame that is neither torch's, nor Python's own, nor this room's."""

import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from emberward.events import Site

MAX_FRAMES = 200
"""Frames that are looked at for the user's; deeper stacks have no site."""
WRAPPERS = frozenset({"typing_extensions.py", "decorator.py", "six.py", "deprecated.py"})
"""Installed modules whose decorators stand between torch and the user: ``all_gather_into_tensor`` has one."""


def _own_folders() -> tuple[str, ...]:
    found = [str(Path(__file__).parent)]
    found += [path for name in ("stdlib", "platstdlib") if (path := sysconfig.get_path(name))]
    return tuple(found)


def _package_folders() -> tuple[str, ...]:
    """Where installed packages lie; inside the standard library's folder, yet not the standard library."""
    return tuple(path for name in ("purelib", "platlib") if (path := sysconfig.get_path(name)))


class SiteFinder:
    """Gives the site of the call that is being recorded. Never raises and reads no file.

    Files below one of `roots` are named relative to it, the first that fits; others by their whole path. `skip` adds
    folders whose frames are not the user's. Torch's folder is skipped once torch is loaded.
    """

    def __init__(self, roots: Sequence[Path] = (), skip: Sequence[Path] = ()) -> None:
        self._roots = tuple(str(root) for root in roots)
        self._skip = (*_own_folders(), *(str(folder) for folder in skip))
        self._packages = _package_folders()
        self._names: dict[str, str | None] = {}

    def here(self) -> Site | None:
        """The site of the innermost user's frame above the caller, None when there is none."""
        frame: FrameType | None = sys._getframe(1)
        for _ in range(MAX_FRAMES):
            if frame is None:
                return None
            found = self.of(frame)
            if found is not None:
                return found
            frame = frame.f_back
        return None

    def of(self, frame: FrameType) -> Site | None:
        """The site of `frame` itself; None when it is not the user's."""
        code = frame.f_code
        name = self._names.get(code.co_filename, "")
        if name == "":
            name = self._names[code.co_filename] = self._name(code.co_filename)
        return None if name is None else Site(file=name, line=frame.f_lineno, function=code.co_name)

    def _name(self, file: str) -> str | None:
        """How `file` is shown; None when its frames are not the user's."""
        torch = sys.modules.get("torch")
        torch_folder = None if torch is None or torch.__file__ is None else str(Path(torch.__file__).parent)
        if file.startswith("<") or (torch_folder is not None and _is_in(file, torch_folder)):
            return None
        is_package = any(_is_in(file, folder) for folder in self._packages)
        if is_package and Path(file).name in WRAPPERS:
            return None
        own = self._skip if not is_package else tuple(folder for folder in self._skip if folder not in self._stdlib())
        if any(_is_in(file, folder) for folder in own):
            return None
        for root in self._roots:
            if _is_in(file, root):
                return file[len(root) :].lstrip("/")
        return file

    @staticmethod
    def _stdlib() -> tuple[str, ...]:
        return tuple(path for name in ("stdlib", "platstdlib") if (path := sysconfig.get_path(name)))


def _is_in(file: str, folder: str) -> bool:
    return file.startswith(folder.rstrip("/") + "/")

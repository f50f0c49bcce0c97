"""Whose a frame is: the user's, an installed package's, Python's and torch's, or ours. Every observer asks here.

[Note: whose line]
The line to blame is one that the user can change. In train.py -> Trainer -> accelerate -> all_reduce that is the line
of train.py: a frame of an installed package is never the user's, wherever it stands in the stack. One exception: when
the program itself is an installed package (``python -m package.train``, or our own trainer), its files are what the
user runs, and count as the user's.

A path decides, and nothing is imported or read for it but our own package's list of files; a short one is the standard
library's where this Python has that file. Of this process the real
folders are known too. Text from another machine has only its path: ``site-packages``, ``lib/python3.x``, and for our
recorder the name of one of our modules, from a part ``emberward`` on. A folder that is only *named* so (the default
name of a clone) makes nothing ours.
"""

import pkgutil
import re
import sys
import sysconfig
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

OWN_NAME = "emberward"
_OBSERVERS = "sources"
"""Our room whose frames lie between torch's and the program's; what else is ours may be the program."""
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_BUNDLE = (".whl", ".egg")
"""Folders and archives that hold one installed distribution: zipped applications (pex, shiv) keep wheels whole."""
_STANDARD = re.compile(r"(?:python|pypy)3(?:\.\d+)?t?$")
"""The last part of the standard library's folder, below ``lib``: ``python3.13t`` is the build without the GIL."""
_STANDARD_ZIP = re.compile(r"python3\d+\.zip$")
_TORCH = "torch"
# py-spy shortens paths against sys.path: of ``torch/nn/modules/module.py`` or ``queue.py`` the folder is not told.
# The second list are modules that torch 2.13 imports: a program with a file of such a name beside it would not start.
_SHORT_FILES = frozenset(
    """
    socketserver.py connection.py popen_fork.py popen_spawn_posix.py synchronize.py managers.py _bootstrap.py
    process.py resource_tracker.py pool.py thread.py base_events.py
    abc.py argparse.py ast.py base64.py bisect.py bz2.py calendar.py codecs.py contextlib.py contextvars.py
    copy.py copyreg.py csv.py dataclasses.py datetime.py difflib.py dis.py enum.py fnmatch.py functools.py
    genericpath.py gettext.py glob.py gzip.py hashlib.py heapq.py inspect.py io.py ipaddress.py keyword.py
    linecache.py locale.py lzma.py numbers.py opcode.py operator.py os.py pathlib.py pickle.py pickletools.py
    pkgutil.py platform.py posixpath.py pprint.py queue.py quopri.py random.py reprlib.py runpy.py selectors.py
    shutil.py signal.py socket.py ssl.py stat.py string.py struct.py subprocess.py tarfile.py tempfile.py
    textwrap.py threading.py timeit.py token.py tokenize.py traceback.py types.py typing.py uuid.py warnings.py
    weakref.py _weakrefset.py zipfile.py zipimport.py
    """.split()  # noqa: SIM905 (a list of words is read as words)
)
_SHORT_PACKAGES = frozenset(
    """
    accelerate beartype colossalai decorator.py deepspeed deprecated.py diffusers fairscale jaxtyping lightning
    lightning_fabric numpy peft pytorch_lightning six.py torchdata tqdm transformers trl typeguard
    typing_extensions.py wrapt
    """.split()  # noqa: SIM905 (as above)
)


_OF_TEXT = "<string>"
"""Code that Python makes of a text: the program, by ``python -c``; else what modules make for one that lies in a file,
as the methods of a named tuple or of a manager's proxy."""
_TYPED = (_OF_TEXT, "<stdin>", "<console>", "<ipython-input")
"""What a person gave the interpreter without a file; other names in brackets are of code that Python or torch made."""


class Owner(StrEnum):
    """Whose a frame is. PLATFORM: Python's own, its standard library's, torch's."""

    USER = "user"
    PACKAGE = "package"
    PLATFORM = "platform"
    OURS = "ours"


def _folders(*names: str) -> tuple[str, ...]:
    found = {path for name in names if (path := sysconfig.get_path(name))}
    return tuple(sorted(found | {str(Path(path).resolve()) for path in found}))


_OWN_FOLDER = Path(__file__).parents[1]
_OWN_FOLDERS = tuple(dict.fromkeys((str(_OWN_FOLDER), str(_OWN_FOLDER.resolve()))))
_PACKAGE_FOLDERS = _folders("purelib", "platlib")
_STANDARD_FOLDERS = _folders("stdlib", "platstdlib")
_SCRIPT_FOLDERS = _folders("scripts")


@lru_cache(maxsize=4096)
def owner_of(file: str, program: str | None = None) -> Owner:
    """Whose the frames of `file` are. `program`: the installed package that is the program itself, see `package_of`."""
    own = _own_part(file)
    if own is not None and own[0] == _OBSERVERS:
        return Owner.OURS
    package = package_of(file)
    if package is not None:
        is_program = package == program and package != _TORCH
        return Owner.USER if is_program else _owner_of_package(package)
    return Owner.PLATFORM if _is_standard(file) else Owner.USER


@lru_cache(maxsize=4096)
def package_of(file: str) -> str | None:
    """The installed package that `file` belongs to (its top-level name); None for the user's files and Python's own."""
    if _own_part(file) is not None:
        return OWN_NAME
    torch = getattr(sys.modules.get(_TORCH), "__file__", None)
    if torch is not None and _below(file, (str(Path(torch).parent),)) is not None:
        return _TORCH
    parts = file.split("/")
    marks = [i for i, part in enumerate(parts[:-1]) if part in _PACKAGES or part.endswith(_BUNDLE)]
    if marks:
        return parts[marks[-1] + 1]
    rest = _below(file, _PACKAGE_FOLDERS) or _below(file, _SCRIPT_FOLDERS)
    if rest is not None:
        return rest[0]
    if file.startswith("/"):
        return None
    known = parts[0] in _SHORT_PACKAGES or (len(parts) > 1 and parts[0] == _TORCH)
    return parts[0] if known else None


def main_package() -> str | None:
    """The package that the program of this process is, by its ``__main__``; None for a script."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return package_of(file) if isinstance(file, str) else None


def _is_script() -> bool:
    """Whether this process runs a program that lies in a file, and is none of ours that reads what others have left."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return isinstance(file, str) and package_of(file) is None


def _owner_of_package(package: str) -> Owner:
    return {OWN_NAME: Owner.OURS, _TORCH: Owner.PLATFORM}.get(package, Owner.PACKAGE)


def _is_standard(file: str) -> bool:
    if file.startswith("<"):
        return not file.startswith(_TYPED) or (file == _OF_TEXT and _is_script())
    if _below(file, _STANDARD_FOLDERS) is not None:
        return True
    parts = file.split("/")
    if any(above in ("lib", "lib64") and _STANDARD.match(part) for above, part in pairwise(parts[:-1])):
        return True
    if any(_STANDARD_ZIP.match(part) for part in parts[:-1]):
        return True
    if len(parts) == 1:
        return file in _SHORT_FILES
    return not file.startswith("/") and any(Path(folder, file).is_file() for folder in _STANDARD_FOLDERS)


def _below(file: str, folders: tuple[str, ...]) -> list[str] | None:
    """The parts of `file` below the first of `folders` that it lies in."""
    for folder in folders:
        if file.startswith(folder + "/"):
            return file[len(folder) + 1 :].split("/")
    return None


def _own_part(file: str) -> list[str] | None:
    """The parts of `file` below our package; None when it is none of ours."""
    below = _below(file, _OWN_FOLDERS)
    if below is not None:
        return below
    parts = file.split("/")
    for i, part in enumerate(parts[:-1]):
        if part == OWN_NAME and _is_own_module(tuple(parts[i + 1 :])):
            return parts[i + 1 :]
    return None


@lru_cache(maxsize=1024)
def _is_own_module(parts: tuple[str, ...]) -> bool:
    """Whether our package has that file; also when it was imported from an archive."""
    try:
        return parts[-1].endswith(".py") and pkgutil.get_data(OWN_NAME, "/".join(parts)) is not None
    except OSError:
        return False

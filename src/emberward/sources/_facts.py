"""What of a program's process should be alike on all ranks: versions, and digests of its own source files. Needs torch.

[Note: facts]
Of what is loaded when the ranks meet: a package that one rank loads later, or alone, is no difference. Code counts that
is neither Python's nor an installed package's, by its name under the folder from which it was imported, so that
copies at two paths compare. Reading 200 files of a program costs a few milliseconds, once.
"""

import contextlib
import hashlib
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch

from emberward.events import Owner, owner_of

TOLD = "all told"
"""The last fact: a ring without it may be read while the others are still being written."""
MAX_FILES = 200
MAX_FILE_BYTES = 1 << 20
MAX_PACKAGES = 100


def facts_here() -> Iterator[tuple[str, str]]:
    """Name and value of each fact. Never raises."""
    yield "python", platform.python_version()
    yield "torch", str(torch.__version__)
    cuda = torch.version.cuda
    if cuda is not None:
        yield "cuda", str(cuda)
    with contextlib.suppress(Exception):
        # What a module of the user's answers when it is asked for its version may be anything.
        yield from _packages()
    with contextlib.suppress(Exception):
        yield from _files()
    yield TOLD, "yes"


def _packages() -> Iterator[tuple[str, str]]:
    standard = sys.stdlib_module_names
    found = 0
    for name, module in sorted(sys.modules.items()):
        if "." in name or name in standard or name in ("torch", "emberward") or found >= MAX_PACKAGES:
            continue
        version = getattr(module, "__dict__", {}).get("__version__")
        if isinstance(version, str):
            found += 1
            yield f"package {name}", version


def _files() -> Iterator[tuple[str, str]]:
    # Thousands of modules: names are compared before the disk is asked for any.
    found = 0
    for name, module in sorted(sys.modules.items()):
        file = _source_of(module)
        if file is None or name == "__mp_main__" or owner_of(file) is not Owner.USER:
            continue
        if found >= MAX_FILES:
            return
        with contextlib.suppress(OSError):
            path = Path(file)
            if path.stat().st_size <= MAX_FILE_BYTES:
                found += 1
                shown = path.name if name == "__main__" else name
                yield f"file {shown}", hashlib.blake2b(path.read_bytes(), digest_size=6).hexdigest()


def _source_of(module: ModuleType) -> str | None:
    file = getattr(module, "__dict__", {}).get("__file__")
    return file if isinstance(file, str) and file.endswith(".py") else None

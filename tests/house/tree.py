"""The project's own files, as the house tests read them."""

import ast
import functools
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "emberward"
INCIDENT_PROGRAMS = PACKAGE / "testing" / "incident_programs"
"""Programs that incidents run, written as users write."""


@functools.cache
def rooms() -> tuple[str, ...]:
    """Names of the rooms: the packages right below `emberward`."""
    return tuple(sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))


@functools.cache
def sources() -> dict[str, str]:
    """Text of each source file of the package, by its path from the package; not the users' programs."""
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if INCIDENT_PROGRAMS not in path.parents]
    return {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in files}


@functools.cache
def tree_of(name: str) -> ast.Module:
    """The parsed source file `name`, a key of `sources`."""
    return ast.parse(sources()[name])


def room_of(name: str) -> str | None:
    """The room that holds source file `name`; None for the files of the package itself."""
    first, _, rest = name.partition("/")
    return first if rest else None


def pages() -> list[Path]:
    """Every page that people read."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@functools.cache
def tracked() -> tuple[Path, ...]:
    """Files that git knows; skips the test outside a checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=60)
    return tuple(path for name in done.stdout.decode().split("\0") if name and (path := ROOT / name).is_file())

"""Floors, faces and sizes of the rooms."""

import ast
import importlib
import os
import re
import subprocess
import sys

import pytest

from house.tree import ROOT, room_of, rooms, sources, tree_of

MAX_LINES = 500

# Modules that a room shows beside its face.
SHOWN = {
    "cli": set(),
    # The judge of two snapshots of a job that runs.
    "diagnose": {"live"},
    # What runs as ``python -m emberward.doctor.probe``.
    "doctor": {"probe"},
    # What `from emberward import boxing` gives.
    "engine": {"boxing"},
    # One folder a family; `pieces` is what they declare; `layers` and `dropout`, what they build of, need torch.
    "families": {"bloom", "alibi", "dropout", "layers", "llama", "pieces", "roberta", "swin"},
    "rank": {"dry"},
    "recipe": {"presets"},
    "sources": {
        "attach",
        "dumps",
        "forms",
        "cpu_nccl",
        "fake_world",
        "live",
        "losses",
        "lens",
        "peak",
        "recorder",
        "ring",
        "script",
        "watch",
    },
    "supervise": {"beside", "collector", "leash", "watcher"},
}
JUDGES = ("diagnose", "match")
"""The rooms that conclude who is to blame for a hang, a mismatch or a death."""
NAMES_RANKS = {
    # Ranks that said themselves what they met: an error, a value that is not finite, a save that failed.
    "checkpoint/_staging.py",
    "cli/_examine.py",
    "cli/_prove.py",
    "findings/_error.py",
    "rank/_not_finite.py",
    # Hosts and links, by what was measured of them; their ranks come along.
    "findings/_hosts.py",
    "supervise/_nodes.py",
    "supervise/_slow_hosts.py",
    "supervise/_slow_links.py",
    # Differences of times, versions and weights between ranks.
    "health/_drift.py",
    "lens/_findings.py",
    "lens/_slowdown.py",
    "sources/live/_skew.py",
    "sources/live/_stragglers.py",
    # A finding read back from JSON.
    "findings/_finding.py",
}
"""Files beside the judge's that name ranks in a finding: docs/architecture.md says what each concludes."""
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
from emberward.cli import main
sys.argv = ["emberward", "--help"]
try:
    main()
except SystemExit as end:
    sys.exit(end.code)
"""
TORCH_FREE = tuple(f"emberward.sources.{name}" for name in ("attach", "dumps", "live", "losses", "ring"))
NEEDS_TORCH = {"engine", "lanes", "rank"}


def face_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions: the order that ruff keeps `__all__` in (RUF022)."""
    bare = name.lstrip("_")
    return (0 if bare.isupper() and len(bare) > 1 else 1 if bare[:1].isupper() else 2, name)


def test_imports_keep_to_the_floors():
    pytest.importorskip("importlinter")
    command = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("room", rooms())
def test_a_room_shows_a_sorted_face_that_holds(room):
    face = importlib.import_module(f"emberward.{room}")
    assert list(face.__all__) == sorted(set(face.__all__), key=face_order)
    for name in face.__all__:
        assert getattr(face, name) is not None, name


def other_doors() -> list[str]:
    """Imports that enter a room by something else than its face."""
    found = []
    for name in sources():
        for node in ast.walk(tree_of(name)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                parts = module.split(".")
                if parts[0] != "emberward" or len(parts) < 3 or parts[1] == room_of(name):
                    continue
                if parts[2] not in SHOWN.get(parts[1], set()):
                    found.append(f"{name}:{node.lineno} {module}")
    return found


def test_a_room_is_entered_by_its_face():
    # The doors that are opened when a verb is called are the CLI's own business, not another room's.
    assert other_doors() == []


def test_files_of_a_room_are_private():
    shown = []
    for name in sources():
        parts = name.split("/")
        if len(parts) < 2:
            continue
        stem = parts[1].removesuffix(".py")
        if not stem.startswith("_") and stem not in SHOWN.get(parts[0], set()):
            shown.append(name)
    assert shown == []


def names_ranks(call: ast.Call) -> bool:
    """Whether the call makes a finding that names ranks as the ones to blame."""
    maker = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    word = "ranks" if maker == "hang_finding" else "culprit_ranks"
    return any(each.arg == word and ast.unparse(each.value) != "()" for each in call.keywords)


def test_one_room_names_who_is_to_blame_for_a_hang():
    naming = {
        name
        for name in sources()
        if room_of(name) not in (*JUDGES, "testing")
        if any(isinstance(node, ast.Call) and names_ranks(node) for node in ast.walk(tree_of(name)))
    }
    assert naming == NAMES_RANKS


def test_no_file_is_longer_than_a_person_reads():
    lengths = {name: text.count("\n") for name, text in sources().items()}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_the_core_and_the_program_s_help_need_no_torch():
    names = [f"emberward.{room}" for room in rooms() if room not in NEEDS_TORCH]
    assert len(names) > 10
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    command = [sys.executable, "-c", WITHOUT_TORCH, *names, *TORCH_FREE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\btrain\b", done.stdout)


def test_the_look_alike_the_engine_does_need_torch():
    command = [sys.executable, "-c", WITHOUT_TORCH, "emberward.engine"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "torch" in done.stderr

"""A rank that a program of its own starts, as torch's spawn does: what the recorder keeps of how it ended."""

import subprocess
import sys
from pathlib import Path

from emberward.sources.attach import attach_environment
from emberward.sources.ring import MarkKind, find_rings, read_ring

CHILD_RAISES = Path(__file__).parent / "recorded" / "child_raises.py"
RAISED_LIMIT_S = 120.0


def test_an_exception_in_a_child_of_multiprocessing_stands_in_its_ring(tmp_path: Path) -> None:
    rings = tmp_path / "rings"
    rings.mkdir()
    environment = attach_environment({"OMP_NUM_THREADS": "1", "RANK": "0"}, ring_folder=rings)
    command = [sys.executable, str(CHILD_RAISES), str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=RAISED_LIMIT_S)
    assert ended.returncode == 1, ended.stderr
    assert b"KeyError: 'rate'" in ended.stderr
    (view,) = map(read_ring, find_rings(rings))
    raised = [mark for mark in view.marks if mark.kind is MarkKind.EXCEPTION]
    assert [mark.name for mark in raised] == ["KeyError: 'rate'"]
    line = next(n for n, text in enumerate(CHILD_RAISES.read_text().splitlines(), 1) if "# raised" in text)
    assert raised[0].site is not None
    assert (Path(raised[0].site.file).name, raised[0].site.line) == (CHILD_RAISES.name, line)

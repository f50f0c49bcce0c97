"""Calls the real program in a child process, as a person's shell does."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BLOCK_TORCH = 'raise ImportError("torch is blocked by the test")\n'
COUNT_CHILDREN = """
import os, sys
def hook(event, args):
    if event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"):
        with open(os.environ["CHILDREN"], "a") as file:
            file.write(event + "\\n")
sys.addaudithook(hook)
"""


@dataclass(frozen=True)
class Said:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict:
        """The one JSON document on standard output; fails when there is more or less than one."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


def emberward(*arguments: str, cwd: Path, program: str = "-m emberward", **environment: str) -> Said:
    """The program's answer to `arguments`, in the folder `cwd`."""
    done = subprocess.run(
        [sys.executable, *program.split(), *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def without_torch(folder: Path) -> dict[str, str]:
    """An environment in which `import torch` fails."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text(BLOCK_TORCH)
    return {"PYTHONPATH": str(folder)}


def counting_children(folder: Path) -> tuple[dict[str, str], Path]:
    """An environment in which each process that Python starts leaves a line, and the file of those lines."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(COUNT_CHILDREN)
    return {"PYTHONPATH": str(folder), "CHILDREN": str(folder / "children")}, folder / "children"

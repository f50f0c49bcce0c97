"""Calls the real program in a child process, as a person's shell does."""

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from warm import RANK, TORCH, WarmServer

from emberward.cli._main import VERB_FILES

LIMIT_S = 100.0
LOADED = (*(f"emberward.cli.{file}" for file in dict.fromkeys(VERB_FILES.values())), "rich.console")
"""What verbs import when they are called: the whole program."""

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


@functools.cache
def warm_server(*, has_torch: bool = False) -> WarmServer:
    """Where the program is forked from; with torch loaded too, for verbs that import it themselves."""
    modules = (*TORCH, *RANK, *LOADED) if has_torch else LOADED
    server = WarmServer(*modules, environment={**os.environ, "OMP_NUM_THREADS": "1"})
    atexit.register(server.close)
    return server


def emberward(
    *arguments: str, cwd: Path, program: str = "-m emberward", has_torch: bool = False, **environment: str
) -> Said:
    """The program's answer to `arguments`, in the folder `cwd`.

    It is forked from a warm process, unless the environment changes what Python itself imports. `has_torch`: from one
    that has torch loaded, for a verb that imports it.
    """
    environment = {"COLUMNS": "200", **environment}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        if program == "-m emberward" and "PYTHONPATH" not in environment:
            started = warm_server(has_torch=has_torch).start(
                ["emberward", *arguments], module="emberward", cwd=cwd, stdout=out, stderr=err, env=environment
            )
            try:
                code = started.wait(LIMIT_S)
            finally:
                started.kill()
        else:
            code = subprocess.run(
                [sys.executable, *program.split(), *arguments],
                cwd=cwd,
                env={**os.environ, **environment},
                stdout=out,
                stderr=err,
                timeout=LIMIT_S,
                check=False,
            ).returncode
        out.seek(0)
        err.seek(0)
        return Said(code, out.read().decode(), err.read().decode())


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

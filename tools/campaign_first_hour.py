"""Follows README from its first command to its last, as a new user, and records what each took and said.

    .venv/bin/python tools/campaign_first_hour.py [--only 3] [--fresh]

A fresh clone of this commit, an empty home without caches, the commands of README as they stand and in their order.
What a person puts in by hand is put in here too: README's script as train.py, a text of one's own as my.txt, the number
of torchrun's process for PID, the name of a run for ID. `--pip-cache FOLDER` keeps pip's downloads, where there is no
network.
"""

import argparse
import contextlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measured import ROOT, Results, add_options

from emberward.processes import ProcessTree

LIMIT_S = 1800.0
HANG_LIMIT_S = 300.0
POLL_S = 5.0
MAX_SAID = 4000
OWN_TEXT_BYTES = 300_000
KEPT = ("PATH", "LANG", "LC_ALL", "TERM", "TZ", "SSL_CERT_FILE")
"""What of our environment a new user's shell has too."""
EXPECTED = {"check --nproc": 1, "explain PID": 1, "run -- torchrun": 1}
"""Exit codes of the commands that README shows on a script that hangs; of all others 0."""


def commands_in(readme: str) -> list[str]:
    """The commands of README in their order: the indented lines outside of fenced blocks."""
    text = re.sub(r"^```.*?^```$", "", readme, flags=re.MULTILINE | re.DOTALL)
    return [line.strip() for line in text.splitlines() if line.startswith("    ") and line.strip()]


def script_in(readme: str) -> str:
    """README's script."""
    (found,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    return str(found)


def expected_code(command: str) -> int:
    """The exit code that README's command ends with."""
    return next((code for part, code in EXPECTED.items() if part in command), 0)


class NewUser:
    """A clone in a folder of its own, an empty home, and a shell in the clone."""

    def __init__(self, place: Path, tree: ProcessTree, pip_cache: Path | None) -> None:
        self.clone, self._tree = place / "emberward", tree
        home = place / "home"
        home.mkdir()
        self._environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        # Where this machine's packages are found is no cache, and a person without it would have the network.
        self._environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        self._environment |= {"HOME": str(home), "TMPDIR": str(place / "tmp")}
        (place / "tmp").mkdir()
        if pip_cache is not None:
            self._environment["PIP_CACHE_DIR"] = str(pip_cache)
        self._place = place

    def runs(self, command: str, *, folder: Path | None = None) -> dict[str, Any]:
        """A command typed in the clone, as a row of the results."""
        words = ["bash", "-c", command]
        done = self._tree.run(
            words, environment=self._environment, timeout_s=LIMIT_S, folder=folder or self.clone, every_s=POLL_S
        )
        said = (done.out + done.errors).decode(errors="replace")
        return {"seconds": round(done.seconds, 1), "code": done.code, "said": said[-MAX_SAID:]}

    @contextlib.contextmanager
    def hanging(self, command: str) -> Iterator[int]:
        """The number of a process that hangs while the block is open."""
        child = self._tree.start(["bash", "-c", f"exec {command}"], environment=self._environment, folder=self.clone)
        try:
            yield child.pid
        finally:
            child.end()

    def explains(self, command: str) -> dict[str, Any]:
        """`explain PID` while README's script hangs: asked again until it says an error, as a person would."""
        with self.hanging(".venv/bin/torchrun --nproc-per-node 2 train.py") as pid:
            began_s, asked = time.monotonic(), 0
            while True:
                row = self.runs(re.sub(r"\bPID\b", str(pid), command))
                asked += 1
                if row["code"] == 1 or time.monotonic() - began_s > HANG_LIMIT_S:
                    return {**row, "asked": asked}

    def id_of_run(self) -> str:
        """The newest run of README's training."""
        return max(path.name for path in (self.clone / "runs" / "bloom_tiny").glob("2*"))

    def follows(self, command: str) -> dict[str, Any]:
        """The command as a person would type it, with what they put in."""
        if "PID" in command.split():
            return self.explains(command)
        if "/ID" in command:
            command = command.replace("/ID", f"/{self.id_of_run()}")
        return self.runs(command)

    def puts_in(self, readme: str) -> None:
        """The person's own files: README's script, and a text."""
        (self.clone / "train.py").write_text(script_in(readme), encoding="utf-8")
        pages = sorted((self.clone / "docs").glob("*.md"))
        text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
        (self.clone / "my.txt").write_text(text[:OWN_TEXT_BYTES], encoding="utf-8")


def main() -> int:
    """The console program; 1 when a command did not end as README shows it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pip-cache", type=Path, help="pip's downloads; without it there are none")
    parser.add_argument("--only", type=int, help="so many commands, from the first")
    add_options(parser)
    asked = parser.parse_args()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = commands_in(readme)[: asked.only]
    results = Results(
        "first_hour",
        what="README's commands in their order, from a fresh clone in an empty home: how long each took, how it ended",
        measures=["src/emberward/cli", "tools/campaign_first_hour.py", "tools/setup_env.py"],
        settings={"commands": commands, "has_pip_cache": asked.pip_cache is not None},
        is_fresh=True,
        folder=asked.into,
    )
    place = Path(tempfile.mkdtemp(prefix="first-hour-"))
    try:
        with ProcessTree() as tree:
            user = NewUser(place, tree, asked.pip_cache)
            cloned = user.runs(f"git clone -q {ROOT} {user.clone}", folder=place)
            results.add("0 git clone", {**cloned, "expected": 0})
            user.puts_in(readme)
            for number, command in enumerate(commands, 1):
                row = {**user.follows(command), "expected": expected_code(command)}
                results.add(f"{number} {command}", row)
                sys.stdout.write(f"{number} {command}: {row['seconds']} s, code {row['code']}\n")
                sys.stdout.flush()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    rows = results.latest()
    stumbles = [key for key, row in rows.items() if row["code"] != row["expected"]]
    seconds = sum(row["seconds"] for row in rows.values())
    results.summarise({"minutes": round(seconds / 60, 1), "commands": len(rows) - 1, "stumbles": stumbles})
    return 1 if stumbles else 0


if __name__ == "__main__":
    sys.exit(main())

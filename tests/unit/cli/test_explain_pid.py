"""`emberward explain PID`: numbers are processes, unless files are called so."""

import json
import os
import subprocess
import sys
from pathlib import Path

from unit.cli.door import emberward

GONE = str(2**22 + 17)


def test_a_process_that_is_not_there_is_a_wrong_command(tmp_path: Path) -> None:
    said = emberward("explain", GONE, "--json", cwd=tmp_path)
    assert said.code == 2, said.err
    (finding,) = said.document["findings"]
    assert (finding["code"], finding["message"]) == ("C113", "no such process")
    assert finding["evidence"][1] == f"found nothing runs as {GONE}"
    assert finding["next"] == "pgrep -af torchrun"


RANK = "import time; print(flush=True); time.sleep(600)"


def test_a_shell_s_number_means_its_python_ranks_and_never_the_program_that_asks(tmp_path: Path) -> None:
    """A shell that started a rank and then asks about itself, as `emberward explain $$`."""
    words = f"{sys.executable} -S -c '{RANK}' > {tmp_path}/up & rank=$!; until [ -s {tmp_path}/up ]; do :; done; "
    words += f"{sys.executable} -m emberward explain $$ --json; code=$?; kill $rank; echo $rank >&2; exit $code"
    env = {**os.environ, "RANK": "0", "WORLD_SIZE": "1"}
    said = subprocess.run(["bash", "-c", words], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert said.returncode == 0, said.stderr
    pid = int(said.stderr.split()[-1])
    assert json.loads(said.stdout)["ranks"] == [{"rank": 0, "pid": pid}]


def test_a_file_with_a_number_for_a_name_is_a_file(tmp_path: Path) -> None:
    (tmp_path / GONE).write_text("nothing to see\n")
    said = emberward("explain", GONE, cwd=tmp_path)
    assert said.code == 0, said.err
    assert "no rank was found" not in said.out
    assert "1 files were looked at" in said.out


def test_a_process_that_waits_for_nobody_is_no_hang(tmp_path: Path) -> None:
    env = {**os.environ, "RANK": "0", "WORLD_SIZE": "1"}
    code = "import time; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-S", "-c", code], env=env, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        said = emberward("explain", str(child.pid), "--json", cwd=tmp_path)
        child.kill()
    assert said.code == 0, said.err
    assert said.document["ranks"] == [{"rank": 0, "pid": child.pid}]
    assert all(finding["severity"] != "error" for finding in said.document["findings"])

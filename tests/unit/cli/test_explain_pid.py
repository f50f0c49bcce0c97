"""`emberward explain PID`: numbers are processes, unless files are called so."""

import os
import subprocess
import sys
from pathlib import Path

from unit.cli.door import emberward

GONE = str(2**22 + 17)


def test_a_process_that_is_not_there_is_a_warning_and_one_json_document(tmp_path: Path) -> None:
    said = emberward("explain", GONE, "--json", cwd=tmp_path)
    assert said.code == 0, said.err
    assert [finding["code"] for finding in said.document["findings"]] == ["H107"]
    assert said.document["ranks"] == []
    assert f"no rank was found at or below process {GONE}" in said.document["findings"][0]["message"]


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

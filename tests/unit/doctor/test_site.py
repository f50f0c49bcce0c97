"""nccl-tests and DCGM behind the probe contract, by stand-ins that print what the programs print."""

import json
import os

import pytest

from emberward.doctor import builtin_probes
from emberward.doctor.probe._site import dcgm, nccl_tests

NCCL = """#  nThread 1 nGpus 2 minBytes 8388608 maxBytes 134217728
     8388608       2097152     float     sum      -1    112.3   74.70   74.70      0
# Out of bounds values : {wrong} {word}
# Avg bus bandwidth    : 81.4203
#
"""


def dcgm_json(status: str) -> str:
    result = {"gpu_id": "3", "status": status, "warnings": "GPU 3 has pending retired pages"}
    tests = [{"name": "Memory", "results": [result]}, {"name": "NVML Library", "results": [{"status": "Pass"}]}]
    return json.dumps({"DCGM GPU Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]}})


def stand_in(folder, name: str, text: str, code: int = 0) -> dict[str, str]:
    (folder / "said").write_text(text)
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES $@" > {folder}/asked\ncat {folder}/said\nexit {code}\n')
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.defpath}", "EMBERWARD_DEVICES": "1,3", "LOCAL_RANK": "0"}


def test_nccl_tests_runs_once_a_host_over_the_sets_devices(tmp_path):
    environment = stand_in(tmp_path, "all_reduce_perf", NCCL.format(wrong=0, word="OK"))
    found = nccl_tests(environment)
    assert (found["ok"], found["value"], found["unit"]) == (True, 81.4203, "GB/s")
    assert (tmp_path / "asked").read_text().split()[:2] == ["1,3", "-b"]
    (tmp_path / "asked").unlink()
    assert nccl_tests({**environment, "LOCAL_RANK": "1"})["ok"] is True
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("text", "code", "detail"),
    [
        (NCCL.format(wrong=3, word="FAILED"), 1, "all_reduce_perf: 3 values are out of bounds"),
        ("no CUDA-capable device is detected\n", 1, "all_reduce_perf: no result in what it says"),
        ("", 1, "all_reduce_perf: exit code 1, nothing said"),
    ],
)
def test_what_nccl_tests_finds_wrong_is_said(tmp_path, text, code, detail):
    assert nccl_tests(stand_in(tmp_path, "all_reduce_perf", text, code)) == {"ok": False, "detail": detail}


def test_dcgm_diagnoses_ones_own_device(tmp_path):
    environment = {**stand_in(tmp_path, "dcgmi", "Successfully\n" + dcgm_json("Pass")), "LOCAL_RANK": "1"}
    assert dcgm(environment) == {"ok": True, "detail": "2 results of dcgmi"}
    assert (tmp_path / "asked").read_text().split() == ["diag", "-r", "1", "-i", "3", "-j"]
    assert dcgm(stand_in(tmp_path, "dcgmi", dcgm_json("Fail"))) == {
        "ok": False, "detail": "Memory: GPU 3 has pending retired pages",
    }  # fmt: skip
    assert dcgm(stand_in(tmp_path, "dcgmi", "Error: unable to connect"))["ok"] is False
    assert dcgm({"PATH": "/nowhere", "EMBERWARD_DEVICES": "0"})["ok"] is False


def test_they_are_used_where_they_are():
    names = [[probe.name for probe in builtin_probes(kind, programs=["dcgmi"])] for kind in ("cuda", "cpu")]
    assert ("dcgm" in names[0], "nccl-tests" in names[0], "dcgm" in names[1]) == (True, False, False)

"""What ranks on NCCL set in their environment, and what they leave."""

from pathlib import Path

from emberward.rank._nccl import SETTINGS, set_for_nccl

PAGE = Path(__file__).resolve().parents[3] / "docs" / "training.md"


def test_what_nobody_set_is_set_and_said():
    environment = {"PATH": "/bin"}
    assert set_for_nccl(environment) == (
        "NCCL_LAUNCH_ORDER_IMPLICIT=1 (set), TORCH_FR_BUFFER_SIZE=2000 (set), TORCH_NCCL_DUMP_ON_TIMEOUT=1 (set)"
    )
    assert environment == {"PATH": "/bin"} | {each.name: each.value for each in SETTINGS}


def test_what_a_person_set_stays_also_by_its_older_name():
    environment = {"NCCL_LAUNCH_ORDER_IMPLICIT": "0", "TORCH_NCCL_TRACE_BUFFER_SIZE": "500"}
    said = set_for_nccl(environment)
    assert said.startswith("NCCL_LAUNCH_ORDER_IMPLICIT=0 (yours), TORCH_NCCL_TRACE_BUFFER_SIZE=500 (yours), ")
    assert "TORCH_FR_BUFFER_SIZE" not in environment


def test_each_has_its_row_in_the_page():
    page = PAGE.read_text(encoding="utf-8")
    for each in SETTINGS:
        assert f"| `{each.name}` | {each.value} |" in page

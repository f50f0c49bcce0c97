"""What a rank says of its own versions and code."""

import importlib
import sys

import torch

from emberward.sources._facts import TOLD, facts_here
from emberward.sources.live import _skew


def test_versions_and_the_program_s_own_files_are_told_and_nobody_else_s(tmp_path, monkeypatch):
    (tmp_path / "rates_of_this_job.py").write_text("RATE = 0.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("rates_of_this_job")
    facts = dict(facts_here())
    assert facts["torch"] == torch.__version__
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "file rates_of_this_job" in facts
    told = {name.removeprefix("file ").partition(".")[0] for name in facts if name.startswith("file ")}
    assert not {"torch", "emberward", "json", "pytest"} & told
    (tmp_path / "rates_of_this_job.py").write_text("RATE = 0.2\n")
    changed = {name for name, value in facts_here() if facts.get(name) != value}
    assert changed == {"file rates_of_this_job"}
    monkeypatch.delitem(sys.modules, "rates_of_this_job")


def test_the_last_fact_says_that_all_are_told():
    assert list(facts_here())[-1] == (TOLD, "yes")
    assert _skew.TOLD == TOLD, "who writes it and who reads it agree"

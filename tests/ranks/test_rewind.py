"""The whole program goes back to a save and on from there otherwise."""

import json

from unit.cli.door import emberward

from emberward.report import RunFolder, read_lines
from ranks.runs import SMALL, write_text

OPTIONS = (
    "train", "bloom_tiny", *SMALL, "steps=6", "save.interval=3", "layout.dp=1", "layout.tp=1", "layout.pp=1",
    "data.train=text", "data.held_out=0.2", "sample_tokens=0", "--no-check",
)  # fmt: skip


def curve(folder):
    return [(line["step"], line["loss"], line["consumed_samples"]) for line in read_lines(folder.metrics)]


def test_a_run_that_is_done_is_rewound_and_learns_from_other_samples(tmp_path):
    write_text(tmp_path / "text")
    assert emberward(*OPTIONS, cwd=tmp_path).code == 0
    (path,) = (tmp_path / "runs" / "bloom_tiny").iterdir()
    folder = RunFolder(path=path)
    before = curve(folder)

    rewind = ("--rewind", "3", "--skip-samples", "16", "--why", "noise")
    dry = emberward(*OPTIONS, *rewind, "--dry", cwd=tmp_path)
    text = "rewound from step 6 to 3, skips the 16 samples after the first 24 trained"
    assert dry.code == 0
    assert f"would be {text}" in " ".join(dry.out.split())
    assert curve(folder) == before
    assert not folder.detours.exists()

    said = emberward(*OPTIONS, *rewind, "--json", cwd=tmp_path)
    assert said.code == 0, said.err
    assert said.document["rewinds"] == [text]
    after = curve(folder)
    assert after[:3] == before[:3]
    assert [(step, samples) for step, _, samples in after] == [(step, samples) for step, _, samples in before]
    assert all(new[1] != old[1] for new, old in zip(after[3:], before[3:], strict=True))
    (act,) = [line for line in read_lines(folder.attempts) if line["event"] == "rewind"]
    assert (act["why"], act["step"], act["skip_samples"]) == ("noise", 3, 16)
    starts = [line["why"] for line in read_lines(folder.attempts) if line["event"] == "start"]
    assert starts[-1].endswith(f"; {text}")
    assert json.loads(folder.detours.read_text())["detours"][0]["consumed_samples"] == 24

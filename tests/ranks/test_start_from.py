"""A new run that starts from a checkpoint has the loss that its maker had, through other programs' forms too."""

from emberward import checkpoint
from emberward.checkpoint import Foreign, Form, read_probe
from ranks.runs import curve
from ranks.save_cases import train

DP2 = {"dp": 2, "zero": 2}


def begun(pool, folder, start, take, *, first_sample):
    """The curve of a new run of two steps that starts so, at the batch that begins with `first_sample`."""
    more = {"first_sample": first_sample, "start": {"checkpoint": str(start), "take": take}}
    answers = pool.run(train, 2, folder=str(folder), steps=2, seed=8, **more, **DP2)
    assert [(answer["error"], answer["resumed"]) for answer in answers] == [(None, 0)] * 2
    return curve(folder)


def test_a_run_starts_with_the_probe_s_loss_from_an_export_that_was_imported(pool, tmp_path):
    answers = pool.run(train, 2, folder=str(tmp_path / "made"), steps=3, seed=5, **DP2)
    assert [answer["error"] for answer in answers] == [None] * 2
    save = tmp_path / "made" / "checkpoints" / "step-00000002"
    probe = read_probe(save)
    assert probe is not None and probe.loss == curve(tmp_path / "made")[2][1]

    checkpoint.export_checkpoint(save, tmp_path / "hf", form=Form.HUGGING_FACE, foreign=Foreign(family="bloom"))
    checkpoint.import_checkpoint(tmp_path / "hf", tmp_path / "hf_saves", foreign=Foreign(family="bloom"), step=0)
    checkpoint.export_checkpoint(save, tmp_path / "dcp", form=Form.DCP, foreign=Foreign())
    checkpoint.import_checkpoint(tmp_path / "dcp", tmp_path / "dcp_saves", foreign=Foreign())

    at = {"first_sample": probe.first_sample}
    weights = begun(pool, tmp_path / "weights", tmp_path / "hf_saves", "weights", **at)
    assert (weights[0][0], weights[0][1]) == (1, probe.loss)
    direct = begun(pool, tmp_path / "direct", save, "optimizer", **at)
    through = begun(pool, tmp_path / "through", tmp_path / "dcp_saves", "optimizer", **at)
    assert direct == through
    assert direct[0] == weights[0] and direct[1] != weights[1], "the moments count in the second step"

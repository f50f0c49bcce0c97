"""What a profile says of files that a rank left unfinished."""

from emberward.cli._profile import _operations_of
from emberward.report import RunFolder


def test_operations_that_were_not_written_to_their_end_are_said_to_be_missing(tmp_path):
    folder = RunFolder(path=tmp_path)
    folder.lens.mkdir()
    (folder.lens / "rank00000-7.tmp-ops").write_text("{")
    ranks, said = _operations_of(folder, {"rank00000-7"})
    assert ranks == ()
    assert [(each.code, "rank00000-7.tmp-ops" in each.message) for each in said] == [("P111", True)]
    assert _operations_of(folder, {"rank00000-8"}) == ((), [])

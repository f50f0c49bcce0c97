"""A certificate is used for the recipe and the versions that it was made for, and for nothing else."""

import json

import pytest
import torch

from emberward import __version__
from emberward.rank._certificate import read_program
from emberward.report import RunFolder
from emberward.sources import Certificate, RoleProgram

PROGRAMS = tuple(RoleProgram(rank=rank, calls=(), places=(), segments=()) for rank in (0, 2))


def certificate(**other):
    made = {"recipe": "a" * 64, "emberward": __version__, "torch": torch.__version__, **other}
    return Certificate(role_of=(0, 0, 1, 1), roles=PROGRAMS, **made)


def found(folder):
    return [json.loads(line) for line in folder.findings.read_text().splitlines()] if folder.findings.exists() else []


def written(tmp_path, text):
    folder = RunFolder(path=tmp_path)
    folder.certificate.write_text(text, encoding="utf-8")
    return folder


def test_each_rank_reads_the_program_of_its_role(tmp_path):
    folder = written(tmp_path, json.dumps(certificate().to_json()))
    assert [read_program(folder, rank=rank, recipe="a" * 64) for rank in range(4)] == [
        PROGRAMS[0],
        PROGRAMS[0],
        PROGRAMS[1],
        PROGRAMS[1],
    ]
    assert found(folder) == []


def test_a_run_without_a_certificate_says_nothing(tmp_path):
    folder = RunFolder(path=tmp_path)
    assert read_program(folder, rank=0, recipe="a" * 64) is None
    assert found(folder) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            json.dumps(certificate(recipe="b" * 64).to_json()),
            "the certificate is not used: it is for recipe bbbbbbbbbbbbbbbb, this is aaaaaaaaaaaaaaaa",
        ),
        (
            json.dumps(certificate(torch="1.0").to_json()),
            f"the certificate is not used: it is for torch 1.0, this is {torch.__version__}",
        ),
        ("{}", "the certificate is not used: it cannot be read: KeyError: 'certificate'"),
        (
            json.dumps({**certificate().to_json(), "role_of": []}),
            "the certificate is not used: it cannot be read: IndexError: tuple index out of range",
        ),
    ],
    ids=["another recipe", "another torch", "no certificate", "another world"],
)
def test_what_is_not_for_this_run_is_not_used_and_rank_0_says_why(tmp_path, capsys, text, message):
    folder = written(tmp_path, text)
    assert [read_program(folder, rank=rank, recipe="a" * 64) for rank in (3, 0)] == [None, None]
    (finding,) = found(folder)
    assert (finding["code"], finding["severity"], finding["message"]) == ("R111", "notice", message)
    assert finding["next"] == "start again with the check, which writes a certificate for this recipe"
    assert capsys.readouterr().err.count("R111 the certificate is not used") == 2

"""A bundle tells what happened, and nothing that is nobody's business."""

import hashlib
import io
import json
import tarfile

import pytest
from unit.cli.door import emberward
from unit.sources.test_dumps_shift import ROUND, write_lines

from emberward.report import Redactor, RunFolder, append_line, unpack_bundle, write_bundle, write_json

SECRETS = {
    "an assigned token": ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123"),
    "a JSON value": ('{"hub_token": "tok-abcdefgh"}', "tok-abcdefgh"),
    "a hub token": ("login with hf_abcdefghijklmnopqrstuv now", "hf_abcdefghijklmnopqrstuv"),
    "a forge token": ("https://ghp_0123456789abcdefghij0123456789@example.com", "ghp_0123456789"),
    "a cloud key": ("key AKIAIOSFODNN7EXAMPLE used", "AKIAIOSFODNN7EXAMPLE"),
    "a bearer": ("Authorization: Bearer abc.def-123456", "abc.def-123456"),
    "a password in an address": ("postgres://ann:hunter2secret@db/x", "hunter2secret"),
    "a private key": ("-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----", "MIIEabc"),
    "a password": ("password: correct-horse", "correct-horse"),
    "a person's mail": ("mail ann.lee@example.org about it", "ann.lee@example.org"),
    "a person's home": (f"/{'home'}/annlee/work/train.py:43", "annlee"),
    "a known person": ("started by annlee on gpu-17", "annlee"),
    "a host": ("started by annlee on gpu-17", "gpu-17"),
    "a host of two letters": ('{"host": "vm", "text": "on host vm"}', "vm"),
    "an address": ("Connection reset by peer [10.12.0.7]:4123", "10.12.0.7"),
}
HARMLESS = (
    "consumed_tokens: 8192, tokens_per_s: 1234.5",
    '{"tokenizer": "bytes", "sample_tokens": 64}',
    'File "<path>/site-packages/torch/distributed/c10d_logger.py", line 83',
    "rank 2 is busy in pack(), 7 others wait",
    "bound to 127.0.0.1:29500",
    "token: None",
    "loss 2.5/3.1 at 10:12:55, ratio 3/4",
    "commit 9f4c2d7e8a1b and digest 0123456789abcdef",
    "wchan of /proc/self/status",
    "model.roberta.num_token_types: default",
    "lvm is full, vm_stat says",
)


def redactor() -> Redactor:
    return Redactor(hosts=("gpu-17", "vm"), people=("annlee",))


@pytest.mark.parametrize("name", SECRETS)
def test_what_must_not_leave_is_taken_out(name):
    text, secret = SECRETS[name]
    assert secret in text
    found = redactor()
    assert secret not in found.text(text)
    assert sum(found.summary().values()) > 0


@pytest.mark.parametrize("text", HARMLESS)
def test_what_tells_about_the_fault_stays(text):
    found = redactor()
    assert found.text(text) == text
    assert sum(found.summary().values()) == 0


def test_the_same_name_is_the_same_number_and_lines_keep_their_place():
    found = Redactor(hosts=("node-a", "node-b"))
    text = found.text("node-b waits for node-a\nnode-a at /data/team/jobs/train.py:43 in pack()\nnode-b is fine")
    assert text == "<host 1> waits for <host 2>\n<host 2> at <path>/jobs/train.py:43 in pack()\n<host 1> is fine"
    assert found.text("/nix/v/lib/python3.11/site-packages/torch/nn.py:7") == (
        "<path>/lib/python3.11/site-packages/torch/nn.py:7"
    )


def make_run(path) -> RunFolder:
    folder = RunFolder(path=path / "runs" / "tiny" / "20261121-1")
    for place in (folder.path, folder.logs, folder.ranks, folder.checkpoints):
        place.mkdir(parents=True)
    folder.config.write_text("name: tiny\nlog:\n  wandb_api_key: abcdefgh12345\n")
    write_json(folder.rank_file(0), {"rank": 0, "host": "gpu-17.cluster.example", "pid": 12})
    append_line(folder.findings, {"code": "L102", "message": "rank 2 died first on gpu-17", "hosts": ["gpu-17"]})
    folder.rank_log(0).write_text("x" * 80 + "\n" + "a long line of a log\n" * 100_000 + "the last word\n")
    (folder.checkpoints / "weights.txt").write_text("never packed")
    return folder


def contents(path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        files = {member.name.partition("/")[2]: tar.extractfile(member).read() for member in tar.getmembers()}
    manifest = json.loads(files["MANIFEST.json"])
    for name, said in manifest["files"].items():
        assert said == {"bytes": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()}
    assert set(manifest["files"]) == set(files) - {"MANIFEST.json"}
    return {name: data.decode() for name, data in files.items()}


def test_a_bundle_holds_the_end_of_logs_no_secret_and_no_checkpoint(tmp_path):
    folder = make_run(tmp_path)
    bundle = write_bundle(folder, tmp_path / "ticket.tar.gz", user="annlee")
    files = contents(bundle.path)
    assert files["logs/rank00000.log"].endswith("the last word\n")
    assert len(files["logs/rank00000.log"]) <= 1 << 20
    assert files["logs/rank00000.log"].startswith("a long line")
    assert "rank 2 died first on <host 1>" in files["findings.jsonl"]
    whole = "\n".join(files.values())
    for absent in ("abcdefgh12345", "gpu-17", "never packed", str(tmp_path)):
        assert absent not in whole
    assert bundle.hidden["secret"] == 1 and bundle.hidden["host"] >= 2
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def run_of_two_ranks(path) -> RunFolder:
    """A run one of whose ranks skipped a call in silence, with its loss."""
    folder = make_run(path)
    folder.findings.unlink()
    (folder.events / "attempt-0001").mkdir(parents=True)
    for rank in range(2):
        write_lines((folder.events / "attempt-0001"), rank, ROUND * 4 + [11] * rank + ROUND * 5, num_ranks=2)
    append_line(folder.logged, {"step": 1, "loss": 2.5, "curve": "loss"})
    append_line(folder.logged, {"step": 2, "loss": 1.5, "curve": "loss"})
    return folder


def test_report_and_explain_read_a_bundle_as_they_read_the_run(tmp_path):
    folder = run_of_two_ranks(tmp_path)
    packed = tmp_path / "ticket.tar.gz"
    write_bundle(folder, packed)
    names = ("explain", "report")
    of_run, of_bundle = ([emberward(n, str(p), "--json", cwd=tmp_path) for n in names] for p in (folder.path, packed))
    for told, again in zip(of_run, of_bundle, strict=True):
        assert again.code == told.code
        assert [f["message"] for f in again.document["findings"]] == [f["message"] for f in told.document["findings"]]
    assert "rank 1" in of_bundle[0].document["incidents"][0]["verdict"]["message"]
    assert [of_bundle[1].document[key] for key in ("name", "id", "loss_last")] == ["tiny", "20261121-1", 1.5]
    assert "a bundle, unpacked" in emberward("report", str(packed), cwd=tmp_path).out


@pytest.mark.parametrize("name", ["../../escaped.txt", "/tmp/escaped-bundle.txt"])
def test_no_file_of_a_bundle_lands_elsewhere(tmp_path, name):
    packed, into = tmp_path / "evil.tar.gz", tmp_path / "into" / "below"
    into.mkdir(parents=True)
    with tarfile.open(packed, "w:gz") as tar:
        for each, data in ((name, b"x"), ("run/MANIFEST.json", b'{"run": {"name": "..", "id": "../.."}}')):
            info = tarfile.TarInfo(each)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("run/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(link)
    assert unpack_bundle(packed, into) == into / "run"
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert len(found) == 3 and all(each.startswith(("into/below/", "evil")) for each in found)
    assert not any(path.is_symlink() for path in into.rglob("*"))


def test_a_bundle_that_is_cut_says_so_and_leaves_nothing_behind(tmp_path):
    packed = tmp_path / "ticket.tar.gz"
    write_bundle(run_of_two_ranks(tmp_path), packed)
    packed.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    refused = emberward("report", str(packed), cwd=tmp_path)
    assert refused.code == 2 and "C107 this bundle cannot be read" in refused.err


def test_hosts_may_stay(tmp_path):
    bundle = write_bundle(make_run(tmp_path), tmp_path / "ticket.tar.gz", keep_hosts=True)
    assert "on gpu-17" in contents(bundle.path)["findings.jsonl"]


def test_the_verb_says_what_it_wrote_and_what_it_took_out(tmp_path):
    folder = make_run(tmp_path)
    done = emberward("report", str(folder.path), "--bundle", "ticket.tar.gz", "--json", cwd=tmp_path)
    said = done.document
    assert done.code == 0 and said["taken_out"]["secret"] == 1
    assert said["bytes"] == (tmp_path / "ticket.tar.gz").stat().st_size
    refused = emberward("report", str(folder.path), "--bundle", "nowhere/ticket.tar.gz", cwd=tmp_path)
    assert refused.code == 2 and "C112" in refused.err

"""Damaged files: a finding, never a traceback. Inputs are drawn by hypothesis; a failure prints its seed."""

import io
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.sources.dump_samples import DATA, HANGS, dump, entry, write

from emberward.findings import CATALOGUE
from emberward.sources.dumps import explain_paths

SAMPLES = [
    DATA / "flight_recorder_gloo" / "rank_0",
    DATA / "flight_recorder_nccl" / "_dump_10.json",
    DATA / "flight_recorder_nccl" / "_dump_12",
    DATA / "stacks" / "bloom_two_nodes.txt",
    DATA / "stacks" / "ras_dead.txt",
    DATA / "stacks" / "ras_unresponsive.json",
    DATA / "logs" / "pytorch_118369_seqnum_skew.txt",
    HANGS / "skips_one" / "stacks.json",
    HANGS / "skips_one" / "stacks.txt",
    HANGS / "skips_one" / "rank_2",
]
QUICK = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**19) | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def explain_bytes(name: str, data: bytes, *beside: Path) -> None:
    """Explains a file of these bytes; it must give a catalogued finding with a message and a next step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        findings = explain_paths([path, *beside]).findings
    assert findings
    for finding in findings:
        assert finding.code in CATALOGUE
        assert finding.message
        assert finding.next
        json.dumps(finding.to_json())


@QUICK
@given(
    data=st.binary(max_size=400), name=st.sampled_from(["rank_0", "_dump_3.json", "trace.txt", "x", "findings.jsonl"])
)
def test_random_bytes(data: bytes, name: str) -> None:
    explain_bytes(name, data)


@QUICK
@given(data=st.binary(max_size=200))
def test_random_pickles_and_json(data: bytes) -> None:
    explain_bytes("rank_0", b"\x80\x02" + data)
    explain_bytes("rank_0", b'{"entries": ' + data)


@QUICK
@given(sample=st.sampled_from(SAMPLES), share=st.floats(0, 1))
def test_a_file_cut_anywhere(sample: Path, share: float) -> None:
    data = sample.read_bytes()
    explain_bytes(sample.name, data[: int(len(data) * share)])


@QUICK
@given(
    sample=st.sampled_from(SAMPLES), places=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=12)
)
def test_a_file_with_wrong_bytes(sample: Path, places: list[tuple[float, int]]) -> None:
    data = bytearray(sample.read_bytes())
    for share, value in places:
        data[int(len(data) * share)] = value
    explain_bytes(sample.name, bytes(data), DATA / "flight_recorder_gloo" / "rank_1")


def packed(kind: str) -> bytes:
    """An archive with two dumps and a stack."""
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for sample in (SAMPLES[0], SAMPLES[-1], SAMPLES[-2]):
                archive.write(sample, sample.name)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w:gz" if kind == "tar.gz" else "w") as tar:
        for sample in (SAMPLES[0], SAMPLES[-1], SAMPLES[-2]):
            tar.add(sample, sample.name)
    return out.getvalue()


PACKED = {kind: packed(kind) for kind in ("zip", "tar", "tar.gz")}


@settings(QUICK, max_examples=60)
@given(
    kind=st.sampled_from(sorted(PACKED)),
    share=st.floats(0, 1),
    places=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=6),
)
def test_an_archive_cut_or_with_wrong_bytes(kind: str, share: float, places: list[tuple[float, int]]) -> None:
    data = bytearray(PACKED[kind][: int(len(PACKED[kind]) * share)])
    for place, value in places if data else ():
        data[int(len(data) * place)] = value
    explain_bytes(f"ticket.{kind}", bytes(data))


LINES = (
    "", "0: ", "[rank1]: ", "[default2]:", "Traceback (most recent call last):", '  File "/j/a.py", line 3, in f',
    "ValueError: x", "Current thread 0x00007f (most recent call first):", "Thread 0x1f (idle): \"MainThread\"",
    "    f (a.py:3)", "        Locals:", "            x: (b.py:9)", "Process 3: p", "Timeout (0:00:30)!", "rank : 3",
    "exitcode : -11 (pid: 3)  (SIGSEGV)", "Signal 11 (SIGSEGV) received by PID 3", "Fatal Python error: Aborted",
)  # fmt: skip


@QUICK
@given(rows=st.lists(st.lists(st.sampled_from(LINES), max_size=3).map("".join), max_size=30))
def test_lines_of_logs_and_stacks_in_any_order(rows: list[str]) -> None:
    explain_bytes("slurm-7.out", "\n".join(rows).encode())


@QUICK
@given(key=st.sampled_from([*sorted(entry(1, 1)), "process_group"]), value=plain, top=st.booleans())
def test_an_entry_with_a_field_of_another_kind(key: str, value: object, top: bool) -> None:
    rows = [entry(k, k) for k in range(1, 5)]
    rows[2][key] = value
    data = dump(rows, {("0", "default_pg"): [0, 1]}, status={0: (4, 4)})
    if top:
        data["pg_config"] = value
        data["pg_status"] = {"0": value, key: value}
    explain_bytes("rank_0", json.dumps(data).encode())


@QUICK
@given(value=plain)
def test_json_of_any_shape(value: object) -> None:
    for body in (value, {"entries": value, "version": "2.10"}, {"communicators": [value], "nccl_version": "2"}):
        explain_bytes("rank_1", json.dumps(body).encode())
    explain_bytes("stacks.json", json.dumps([{"pid": 1, "frames": [value]}, value]).encode())


def test_mixed_good_and_bad_files_give_the_verdict_and_the_complaint(tmp_path: Path) -> None:
    for rank in range(4):
        data = (DATA / "flight_recorder_gloo" / f"rank_{rank}").read_bytes()
        (tmp_path / f"rank_{rank}").write_bytes(data[:100] if rank == 3 else data)
    (tmp_path / "rank_7").write_bytes(b"")
    findings = explain_paths([tmp_path]).findings
    assert findings[0].culprit_ranks == (2,)
    assert [f.message for f in findings if f.code == "H108"] == ["rank_3: cannot be read", "rank_7: is empty"]


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    finding = explain_paths([tmp_path]).findings[0]
    assert (finding.code, finding.culprit_ranks) == ("H107", ())


def test_explain_runs_where_torch_is_not() -> None:
    code = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch':\n"
        "            raise ImportError('torch is not here')\n"
        "sys.meta_path.insert(0, Block())\n"
        "sys.argv = ['emberward', 'explain', '--json', *sys.argv[1:]]\n"
        "from emberward.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(DATA / "flight_recorder_gloo"), str(DATA / "stacks" / "bloom_two_nodes.txt")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    assert document["incidents"][0]["verdict"]["culprit_ranks"] == [2]


def test_a_path_that_is_not_there_is_a_usage_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from emberward.cli import main; main()", "explain", "no-such-folder"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "no such file or folder" in done.stdout + done.stderr


def test_many_ranks_and_long_rings_are_judged(tmp_path: Path) -> None:
    """64 ranks in TP8 x DP8: one TP rank stops, and all wait, most of them behind others."""
    world = list(range(64))
    dumps = {}
    for rank in world:
        tp, dp = (1, str(1 + rank // 8), "TP"), (2, str(20 + rank % 8), "DP")
        groups = {
            ("0", "default_pg"): world,
            tp[1:]: [r for r in world if r // 8 == rank // 8],
            dp[1:]: [r for r in world if r % 8 == rank % 8],
        }
        rows = [entry(k, k // 2 + 1, pg=tp if k % 2 else dp, line=k % 2 + 1) for k in range(100)]
        if rank != 27:
            in_tp = rank // 8 == 27 // 8
            rows.append(entry(100, 51, pg=tp, line=1, done=not in_tp))
            rows += [] if in_tp else [entry(101, 51, pg=dp, line=2, done=False)]
        dumps[rank] = dump(rows, groups)
    finding = explain_paths([write(tmp_path / "d", dumps)]).findings[0]
    assert finding.culprit_ranks == (27,)
    assert len(finding.waiting_ranks) == 63
    assert len(finding.evidence) < 14, "a witness stays small"

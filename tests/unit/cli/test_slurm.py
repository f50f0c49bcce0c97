"""`emberward slurm` on stand-ins for SLURM's programs: what is refused, what is left out, drain and its ticket."""

import json
import os
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from emberward.cli._console import Screen
from emberward.cli._slurm import SubmitOptions, drain, submit
from emberward.cli._slurm_pulse import PulseOptions, follow
from emberward.findings import ConfigError, host_down
from emberward.runs import left_out, strike
from emberward.slurm import Resources, Slurm, chain_of, record_job

RESOURCES = Resources(num_nodes=2, ranks_per_node=1, time="20:00:00", signal_s=300, num_jobs=3)
LOST = host_down("n2", "does not answer SLURM: down*, Not responding", evidence=["it ran there"], next="repair it")


def environment(folder: Path, **programs: str) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    for name, text in programs.items():
        (folder / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {folder}/asked\n{text}\n')
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.defpath}"}


def asked(folder: Path) -> list[str]:
    path = folder / "asked"
    return path.read_text().splitlines() if path.exists() else []


def options(
    tmp_path,
    *overrides: str,
    resources: Resources = RESOURCES,
    sbatch: str = "echo 41",
    sinfo: str = "printf 'n1|idle\\nn2|idle\\nn3|mixed\\n'",
) -> SubmitOptions:
    return SubmitOptions(
        recipe="bloom_tiny",
        overrides=overrides or ("layout.dp=2", "layout.tp=1", "layout.pp=1"),
        runs=tmp_path / "runs",
        resources=resources,
        is_dry=False,
        environment=environment(tmp_path / "bin", sbatch=sbatch, sinfo=sinfo),
    )


def test_a_chain_is_submitted_without_the_hosts_left_out_and_remembered(tmp_path, capsys):
    place = tmp_path / "runs" / "bloom_tiny"
    strike(tmp_path / "runs", LOST, by="a test")
    assert submit(options(tmp_path), Screen(is_json=True)) == 0
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert (said["job"], said["excluded"]) == (41, ["n2"])
    assert "left out    n2: L113 host n2 does not answer SLURM: down*, Not responding" in err
    assert "#SBATCH --exclude=n2\n" in Path(said["script"]).read_text()
    assert chain_of(place).jobs == (41,)
    assert asked(tmp_path / "bin")[-1] == f"sbatch --parsable {said['script']}"


def test_no_more_nodes_are_left_out_than_the_chain_can_spare(tmp_path, capsys):
    """Two nodes are needed: n3 is down, so that n2 is one of the two that are there."""
    strike(tmp_path / "runs", LOST, by="a test")
    assert submit(options(tmp_path, sinfo="printf 'n1|idle\\nn2|idle\\nn3|down*\\n'"), Screen(is_json=True)) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["excluded"] == []
    assert "taken back  n2, as only so 2 hosts are there: L113 host n2 does not answer SLURM" in err


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"overrides": ("layout.dp=3",)}, "C104"),
        ({"overrides": ("optim.lrr=1",)}, "C101"),
        ({"resources": Resources(num_nodes=2, ranks_per_node=1, time="20 hours", signal_s=300, num_jobs=1)}, "C113"),
        (
            {"sbatch": "echo 'sbatch: error: Invalid partition name specified' >&2; exit 1"},
            "L121",
        ),
        ({"sbatch": "echo submitted"}, "L120"),
    ],
    ids=["layout", "key", "time", "partition", "answer"],
)
def test_what_cannot_train_is_not_submitted(tmp_path, change, code):
    overrides = change.pop("overrides", ())
    with pytest.raises(ConfigError) as caught:
        submit(options(tmp_path, *overrides, **change), Screen(is_json=True))
    assert (caught.value.code, caught.value.exit_code) == (code, 2)
    assert chain_of(tmp_path / "runs" / "bloom_tiny").jobs == ()
    assert len(asked(tmp_path / "bin")) == {"L121": 1, "L120": 2}.get(code, 0)


def test_a_node_that_we_may_not_drain_gets_a_ticket(tmp_path, capsys):
    place = tmp_path / "runs" / "tiny"
    (place / "slurm").mkdir(parents=True)
    record_job(place, 7, {})
    strike(tmp_path / "runs", LOST, by="a test")
    may_not = "echo 'slurm_update error: Invalid user id' >&2; exit 1"
    slurm = Slurm(environment(tmp_path / "bin", scontrol=may_not))
    assert drain(["n2"], None, None, tmp_path / "runs", slurm, Screen(is_json=True)) == 2
    said = json.loads(capsys.readouterr().out)
    assert [each["code"] for each in said["findings"]] == ["L121"]
    why = "L113 host n2 does not answer SLURM: down*, Not responding"
    assert said["tickets"] == [
        f"Please drain n2: {why}\n\n    scontrol update NodeName=n2 State=DRAIN Reason='{why}'\n\n{why}\n  it ran there"
    ]


def test_a_node_is_drained_with_the_reason_and_none_without(tmp_path, capsys):
    slurm = Slurm(environment(tmp_path / "bin", scontrol="true", sinfo="echo 'n9|drained|it is slow'"))
    assert drain(["n9"], "it is slow", None, tmp_path / "runs", slurm, Screen(is_json=True)) == 0
    assert json.loads(capsys.readouterr().out)["drained"] == {"n9": "it is slow"}
    before = asked(tmp_path / "bin")
    assert before[0] == "scontrol update NodeName=n9 State=DRAIN Reason=it is slow"
    with pytest.raises(ConfigError, match="C113 there is no reason to drain this node"):
        drain(["n9"], None, None, tmp_path / "runs", slurm, Screen(is_json=True))
    assert asked(tmp_path / "bin") == before


def test_a_node_that_went_down_is_left_out_of_the_jobs_that_wait_once(tmp_path, capsys):
    """The job ran on n1 and n2; then it is on n1 and n3, and n2 does not answer."""
    place, runs = tmp_path / "runs" / "tiny", tmp_path / "runs"
    (place / "slurm").mkdir(parents=True)
    record_job(place, 7, {"excluded": ["n8"]})
    words = {
        "squeue": "cat <<END\n7_1|7|RUNNING|main|NODES|t|1:00|None|tiny\n"
        "7_[2-3%1]|7|PENDING|main||N/A|0:00|Priority|tiny\nEND",
        "scontrol": 'case "$*" in *hostnames*) echo NODES | tr , "\\n" ;; *node*) '
        "for n in n1 n2 n3; do echo NodeName=$n BootTime=t; done ;; esac",
        "sinfo": "printf 'n1|allocated|none\\nn2|STATE|Not responding\\n'",
    }

    def snapshot(nodes: str, state: str) -> dict:
        programs = {name: text.replace("NODES", nodes).replace("STATE", state) for name, text in words.items()}
        slurm = Slurm(environment(tmp_path / "bin", **programs))
        once = PulseOptions(
            name="tiny", runs=runs, every_s=60.0, is_once=True, leaves_out=True, to=None,
            notify=(f"sh -c 'cat >> {tmp_path}/told'",),
        )  # fmt: skip
        assert follow(once, slurm, Screen(is_json=True)) == 0
        return json.loads(capsys.readouterr().out)

    assert snapshot("n1,n2", "allocated")["findings"] == []
    found = snapshot("n1,n3", "down*")
    assert [(each["code"], each["hosts"]) for each in found["findings"]] == [("L113", ["n2"])]
    assert found["lines"][0].endswith("; no run yet; left out: n2")
    assert left_out(runs)["n2"].finding["message"] == LOST.message
    update = "scontrol update JobId=7_[2-3] ExcNodeList=n2,n8"
    assert asked(tmp_path / "bin").count(update) == 1
    assert snapshot("n1,n3", "down*")["findings"] == []
    assert asked(tmp_path / "bin").count(update) == 1
    assert len((place / "slurm" / "pulse.log").read_text().splitlines()) == 3
    assert [json.loads(part)["text"] for part in (tmp_path / "told").read_text().replace("}{", "}\n{").splitlines()][
        1
    ] == found["lines"][0]


def test_a_controller_that_is_away_for_a_while_is_a_line_and_the_pulse_goes_on(tmp_path, capsys):
    place = tmp_path / "runs" / "tiny"
    (place / "slurm").mkdir(parents=True)
    record_job(place, 7, {})
    bin = tmp_path / "bin"
    away = (
        f"[ -e {bin}/back ] && exit 0; touch {bin}/back; "
        "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    )
    always = PulseOptions(
        name="tiny", runs=tmp_path / "runs", every_s=0.01, is_once=False, leaves_out=True, to=None, notify=()
    )
    assert follow(always, Slurm(environment(bin, squeue=away)), Screen(is_json=True)) == 0
    said = json.loads(capsys.readouterr().out)
    assert [line.partition("PULSE: ")[2] for line in said["lines"]] == [
        "tiny: SLURM cannot be asked: Unable to contact slurm controller (connect failure)",
        "tiny is not in the queue; no run yet",
    ]
    (bin / "back").unlink()
    with pytest.raises(ConfigError, match="L120 SLURM cannot be asked"):
        follow(replace(always, is_once=True), Slurm(environment(bin, squeue=away)), Screen(is_json=True))


def test_a_pulse_is_told_by_mail_and_by_a_webhook_where_its_file_cannot_be_written(tmp_path, capsys):
    """A mail command that fails and a server that answers 500 are said, and keep no line from the others."""
    got: list[tuple[str, dict]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(500 if self.path == "/broken" else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    bin, place = tmp_path / "bin", tmp_path / "runs" / "tiny"
    slurm = Slurm(environment(bin, squeue="exit 0", mail=f"cat > {tmp_path}/mailed", nomail="exit 3"))
    (place / "slurm").mkdir(parents=True)
    record_job(place, 7, {})
    (place / "slurm" / "pulse.log").mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        once = PulseOptions(
            name="tiny", runs=tmp_path / "runs", every_s=60.0, is_once=True, leaves_out=False, to=None,
            notify=(f"{bin}/mail -s pulse me", f"{url}/hook", f"{url}/broken", f"{bin}/nomail"),
        )  # fmt: skip
        assert follow(once, slurm, Screen(is_json=True)) == 0
        server.shutdown()
    shown = capsys.readouterr()
    said = json.loads(shown.out)
    (line,) = said["lines"]
    assert "PULSE: tiny is not in the queue; no run yet" in line
    mailed = json.loads((tmp_path / "mailed").read_text())
    assert (mailed["text"], mailed["findings"]) == (line, [])
    assert sorted(path for path, _ in got) == ["/broken", "/hook"]
    assert all(told == mailed for _, told in got)
    assert "mail -s pulse me" in (bin / "asked").read_text()
    assert [failure.rpartition(": ")[2] for failure in said["notification_failures"]] == [
        "Internal Server Error",
        "exit code 3",
    ]
    assert "pulse.log cannot be written: Is a directory" in shown.err


def test_a_controller_that_goes_away_between_two_questions_leaves_the_node_to_the_next_pulse(tmp_path, capsys):
    """A node that is in the ledger and in no job's ExcNodeList would be given to the next job."""
    place, runs, bin = tmp_path / "runs" / "tiny", tmp_path / "runs", tmp_path / "bin"
    (place / "slurm").mkdir(parents=True)
    record_job(place, 7, {})

    def snapshot(nodes: str, state: str, update: str = "exit 0", code: str | None = None) -> None:
        slurm = Slurm(environment(
            bin,
            squeue=f"cat <<END\n7_1|7|RUNNING|main|{nodes}|t|1:00|None|tiny\n"
            "7_[2-3%1]|7|PENDING|main||N/A|0:00|Priority|tiny\nEND",
            scontrol=f'case "$*" in *hostnames*) echo {nodes} | tr , "\\n" ;; *update*) {update} ;; *node*) '
            "for n in n1 n2 n3; do echo NodeName=$n BootTime=t; done ;; esac",
            sinfo=f"printf 'n1|allocated|none\\nn2|{state}|Not responding\\n'",
        ))  # fmt: skip
        once = PulseOptions(
            name="tiny", runs=runs, every_s=60.0, is_once=True, leaves_out=True, to=None, notify=()
        )  # fmt: skip
        if code is None:
            assert follow(once, slurm, Screen(is_json=True)) == 0
        else:
            with pytest.raises(ConfigError, match=code):
                follow(once, slurm, Screen(is_json=True))

    away = "echo 'slurm_update error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    snapshot("n1,n2", "allocated")
    snapshot("n1,n3", "down*", update=away, code="L120")
    assert left_out(runs) == {}
    snapshot("n1,n3", "down*")
    assert list(left_out(runs)) == ["n2"]
    assert asked(bin).count("scontrol update JobId=7_[2-3] ExcNodeList=n2") == 2

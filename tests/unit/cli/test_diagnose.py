"""``emberward --diagnose``: each thing is tried, and what does not work here is said with its reason."""

import json
import socket
import subprocess
import sys

import pytest

from emberward.cli import _diagnose
from emberward.cli._console import Screen
from emberward.cli._diagnose import Works, diagnose


def one(part, name):
    (found,) = [check for check in part() if check.name == name]
    return found


def test_it_needs_no_torch_and_says_what_works_without(tmp_path):
    """In a process of its own in which torch cannot be imported, and whose list of packages lacks it."""
    program = (
        "import sys; sys.modules['torch'] = None; import importlib.metadata as m; real = m.version\n"
        "def version(name):\n"
        "    if name == 'torch': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version; sys.argv = ['emberward', '--diagnose', '--json']\n"
        "from emberward.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    torch = next(check for check in said["checks"] if check["name"] == "torch")
    assert (torch["works"], torch["next"]) == ("missing", "pip install 'emberward[train]'")
    assert "explain, ui, report" in torch["effect"]
    assert said["versions"]["torch"] is None
    assert {"python", "torch", "shared memory", "local ports", "stacks", "namespaces"} <= {
        check["name"] for check in said["checks"]
    }
    assert list(tmp_path.iterdir()) == []


def test_shared_memory_that_cannot_be_written_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(_diagnose, "SHARED_MEMORY", tmp_path)
    assert one(_diagnose._shared_memory, "shared memory").works is Works.YES
    monkeypatch.setattr(_diagnose, "RING_BYTES", 1 << 60)
    found = one(_diagnose._shared_memory, "shared memory")
    assert found.works is Works.NO
    assert "no rank is named" in found.effect


def test_a_port_that_is_taken_is_said(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        monkeypatch.setattr(_diagnose, "PORT", taken.getsockname()[1])
        found = one(_diagnose._ports, "page's port")
        assert (found.works, found.next) == (Works.PARTLY, "emberward ui --port 0")
    assert one(_diagnose._ports, "page's port").works is Works.YES


def test_a_host_name_that_resolves_to_nothing_is_said(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "no-such-host.invalid")
    found = one(_diagnose._ports, "host name")
    assert found.works is Works.PARTLY
    assert found.next == "a line for no-such-host.invalid in /etc/hosts"


def test_a_stack_is_really_read(monkeypatch):
    assert one(_diagnose._stacks, "stacks").works in (Works.YES, Works.PARTLY)
    monkeypatch.setattr(_diagnose.shutil, "which", lambda *_, **__: None)
    assert one(_diagnose._stacks, "stacks").next == "pip install py-spy"
    monkeypatch.setattr(_diagnose.shutil, "which", lambda *_, **__: "/bin/false")
    assert one(_diagnose._stacks, "stacks").works is Works.NO


def test_a_torch_that_does_not_import_is_missing(monkeypatch):
    monkeypatch.setattr(_diagnose, "_TORCH", "raise ImportError")
    found = one(_diagnose._torch, "torch")
    assert found.works is Works.NO
    assert found.next.endswith("-c 'import torch'")


def test_a_namespace_that_is_refused_limits_check(monkeypatch):
    monkeypatch.setattr(_diagnose, "_SPACES", "import sys; sys.exit(1)")
    found = one(_diagnose._namespaces, "namespaces")
    assert found.works is Works.PARTLY
    assert "one that writes is refused" in found.effect


def test_people_read_a_line_each_with_reason_and_way_out(monkeypatch, capsys):
    refused = _diagnose.Check(name="x", works=Works.NO, found="y", effect="z", next="w")
    monkeypatch.setattr(_diagnose, "PARTS", (lambda: iter([refused]),))
    assert diagnose(Screen(is_json=False)) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-3:]] == [
        ["missing", "x", "y"], ["so:", "z"], ["next:", "w"]
    ]  # fmt: skip


@pytest.mark.parametrize("words", [["--json"], ["--diagnose", "runs"], ["--json", "runs"]])
def test_it_stands_alone(words, tmp_path):
    command = [sys.executable, "-m", "emberward", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--diagnose" in done.stderr

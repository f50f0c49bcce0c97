"""Jobs for other schedulers, held against the schedulers' own schema and types; and a node's script, run for real."""

import ipaddress
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import PurePosixPath

import kubernetes_validate
import pytest
import torchx.specs
import yaml
from typer.testing import CliRunner

from emberward.cli import app_of
from emberward.manifests import TrainingJob, kubernetes_manifest, node_script, torchx_component

JOB = TrainingJob(
    name="Bloom_Tiny.2",
    recipe="recipes/my recipe.py",
    overrides=("steps=4", "data.train=$HOME/`x`"),
    num_nodes=4,
    ranks_per_node=8,
    image="registry.example/train:1",
    shared=PurePosixPath("/shared"),
    runs=PurePosixPath("/shared/runs"),
    typed="emberward manifest",
    gpus_per_node=8,
    cpus_per_node=64,
    memory_gib=512,
)


@pytest.mark.parametrize("job", [JOB, replace(JOB, gpus_per_node=None, cpus_per_node=None, memory_gib=None)])
def test_the_kubernetes_job_is_valid_and_its_pods_find_node_0(job):
    service, batch = yaml.safe_load_all(kubernetes_manifest(job, claim="training"))
    for each in (service, batch):
        kubernetes_validate.validate(each, "1.37", strict=True)
    assert batch["spec"]["completions"] == batch["spec"]["parallelism"] == 4
    pod = batch["spec"]["template"]["spec"]
    env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert pod["subdomain"] == service["metadata"]["name"] == "bloom-tiny-2"
    assert env["HEAD_ADDRESS"] == "bloom-tiny-2-0.bloom-tiny-2"
    assert service["spec"]["selector"].items() <= batch["spec"]["template"]["metadata"]["labels"].items()
    assert pod["terminationGracePeriodSeconds"] > job.grace_s
    asked = pod["containers"][0].get("resources", {}).get("limits")
    assert asked == (None if job.gpus_per_node is None else {"nvidia.com/gpu": 8, "cpu": 64, "memory": "512Gi"})


def test_a_manifest_that_is_not_valid_is_told_from_one_that_is():
    _, batch = yaml.safe_load_all(kubernetes_manifest(JOB, claim="training").replace("parallelism", "paralelism"))
    with pytest.raises(kubernetes_validate.ValidationError, match="paralelism"):
        kubernetes_validate.validate(batch, "1.37", strict=True)


def words_of(script: str, **names: str) -> list[str]:
    """The words that a shell makes of a node's script, whose program here prints them."""
    shown = script.replace("exec python", f"exec {sys.executable} -c 'import sys; print(*sys.argv[1:], sep=chr(0))'", 1)
    done = subprocess.run(["sh", "-c", shown], env={**os.environ, **names}, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n").split("\0")


def test_a_shell_leaves_each_word_of_the_recipe_as_it_is():
    words = words_of(node_script(JOB), NODE_RANK="3", HEAD_ADDRESS="a.b", HOST_NAME="rack 1", HOST_ADDRESS="10.0.0.7")
    first = words.index("train") + 1
    assert words[first : first + 3] == ["recipes/my recipe.py", "steps=4", "data.train=$HOME/`x`"]
    assert words[words.index("--host") + 1] == "rack 1"
    assert words[words.index("--local-addr") + 1] == "10.0.0.7"
    assert words[words.index("--node-rank") + 1] == "3"
    assert words[words.index("--master-addr") + 1] == "a.b"


def test_the_torchx_component_is_an_app_of_so_many_nodes():
    made: dict = {}
    exec(compile(torchx_component(JOB), "component.py", "exec"), made)
    app = made["train"]()
    assert isinstance(app, torchx.specs.AppDef)
    (role,) = app.roles
    assert (app.name, role.num_replicas, role.resource.gpu, role.resource.memMB) == ("bloom-tiny-2", 4, 8, 512 * 1024)
    filled = torchx.specs.macros.Values(img_root="", app_id="x", replica_id="3", rank0_env="RANK0").apply(role)
    words = words_of(filled.args[1].replace("$(hostname)", "machine"), RANK0="10.0.0.1")
    assert words[words.index("--master-addr") + 1] == "10.0.0.1"
    assert words[words.index("--host") + 1] == "machine-3"
    assert ipaddress.ip_address(words[words.index("--local-addr") + 1])
    assert "data.train=$HOME/`x`" in words


def test_the_verb_writes_a_file_and_refuses_what_could_not_train(tmp_path):
    to = tmp_path / "job.yaml"
    given = ["manifest", "kubernetes", "bloom_tiny", "layout.dp=2", "layout.tp=1", "layout.pp=1", "--nodes", "2"]
    written = CliRunner().invoke(app_of("manifest"), [*given, "--to", str(to)])
    assert (written.exit_code, "kubectl apply" in written.stdout) == (0, True)
    assert len(list(yaml.safe_load_all(to.read_text()))) == 2
    for more, words in ((["layout.dp=3"], "C104"), (["--runs", "/elsewhere"], "share the run's folder")):
        refused = CliRunner().invoke(app_of("manifest"), [*given, *more])
        assert refused.exit_code == 2
        assert words in refused.output

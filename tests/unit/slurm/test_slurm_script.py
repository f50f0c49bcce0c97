"""The batch script is what a person reads: golden, whole."""

from pathlib import Path

import pytest

from emberward.slurm import JobScript, Resources, script_text

GOLDEN = Path(__file__).parent / "golden"
ONE = Resources(num_nodes=2, ranks_per_node=4, time=None, signal_s=300, num_jobs=1)
CHAIN = Resources(
    num_nodes=48,
    ranks_per_node=8,
    gpus_per_node=8,
    partition="gpu_p5",
    time="20:00:00",
    signal_s=600,
    num_jobs=10,
    after=1528763,
    excluded=("jean-zay-iam17", "jean-zay-iam35"),
    more=("--account=six@a100", "--hint=nomultithread"),
)


def script(resources: Resources, chdir: str = "/data/tr11") -> str:
    return script_text(
        JobScript(
            name="tr11",
            typed="emberward slurm submit tr11.py",
            chdir=Path(chdir),
            output=Path(chdir) / "runs/tr11/slurm",
            resources=resources,
            train=("emberward", "train", "tr11.py", "steps=9", "--launcher", "slurm", "--runs", f"{chdir}/runs"),
            pulse=("python", "-m", "emberward", "slurm", "pulse", "tr11", "--runs", f"{chdir}/runs", "--once"),
        )
    )


@pytest.mark.parametrize(("name", "resources"), [("one_job.sh", ONE), ("chain.sh", CHAIN)])
def test_the_script_is_the_golden_one(name, resources):
    assert script(resources) == (GOLDEN / name).read_text(encoding="utf-8")


def test_a_folder_with_a_blank_is_quoted_for_sbatch_and_for_the_shell():
    lines = script(ONE, "/data/my runs").splitlines()
    assert '#SBATCH --chdir="/data/my runs"' in lines
    assert "emberward train tr11.py steps=9 --launcher slurm --runs '/data/my runs/runs'" in lines

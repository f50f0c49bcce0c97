"""``emberward train`` on each node of a torchrun rendezvous: this node's supervisor, with torchrun and its ranks below.

[Note: one command a node]
Every node gets the same command, spelt with torchrun's options; no node is told of the others. Each resolves and proves
the recipe itself, so that a bad one ends before any rank starts. The ranks choose the run's folder, compare what they
were started with (L101), and tell each node's supervisor which run it is. The supervisors post what they see below the
runs, which all nodes share, and come to one verdict. Rank 0's summary says how the run ended: torchrun's own exit code
does not tell a stop from a failure.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from emberward.cli._check import proof_line
from emberward.cli._console import Screen
from emberward.cli._hosts import node_numbers
from emberward.cli._preflight import page_of, say_notes
from emberward.cli._prove import prove_recipe
from emberward.cli._run import JOINED_FILE, RunOptions, node_here, supervised
from emberward.cli._train import TrainOptions
from emberward.data import open_tokenizer
from emberward.findings import ConfigError, exit_code_of
from emberward.match import explain_finding
from emberward.recipe import fit_ranks, resolve_fitted
from emberward.report import RunFolder, plan_text, read_json
from emberward.runs import Intent, require_no_kill_switch
from emberward.supervise import AttemptOutcome, absolute, exit_code_of_launch, outcome_of

MASTER_PORT = 29500
STATIC = "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """How the nodes meet, each option as torchrun has it; None: not given. `host`: what this node is called."""

    nnodes: str | None
    nproc_per_node: int
    node_rank: int | None = None
    master_addr: str | None = None
    master_port: int | None = None
    rdzv_backend: str | None = None
    rdzv_endpoint: str | None = None
    rdzv_id: str | None = None
    rdzv_conf: str | None = None
    max_restarts: int | None = None
    local_addr: str | None = None
    host: str | None = None

    @property
    def is_asked(self) -> bool:
        """Whether any option was given that torchrun has for its rendezvous and nothing else here has."""
        return any(value is not None for value in (*self._own().values(), self.host))

    def _own(self) -> dict[str, str | int | None]:
        return {
            "--node-rank": self.node_rank,
            "--master-addr": self.master_addr,
            "--master-port": self.master_port,
            "--rdzv-backend": self.rdzv_backend,
            "--rdzv-endpoint": self.rdzv_endpoint,
            "--rdzv-id": self.rdzv_id,
            "--rdzv-conf": self.rdzv_conf,
            "--max-restarts": self.max_restarts,
            "--local-addr": self.local_addr,
        }

    def words(self) -> list[str]:
        """torchrun's options, as they were given."""
        given = {"--nnodes": self.nnodes, "--nproc-per-node": self.nproc_per_node, **self._own()}
        return [f"{name}={value}" for name, value in given.items() if value is not None]

    @property
    def is_static(self) -> bool:
        """Whether every node has its number beforehand."""
        return (self.rdzv_backend or STATIC) == STATIC


def require_complete(rendezvous: Rendezvous) -> None:
    """Raises ConfigError C113 for options with which torchrun would wait for ever, or start something else."""
    missing = ""
    if rendezvous.nnodes is None:
        missing = "--nnodes N, or MIN:MAX"
    elif rendezvous.is_static and ":" in rendezvous.nnodes:
        missing = "--rdzv-backend c10d: a number of nodes that may change needs a rendezvous that is not static"
    elif rendezvous.is_static and rendezvous.node_rank is None:
        missing = "--node-rank K, this node's number from 0, or --rdzv-backend c10d"
    elif rendezvous.is_static and rendezvous.master_addr is None and rendezvous.rdzv_endpoint is None:
        missing = "--master-addr HOST, node 0's address"
    elif not rendezvous.is_static and rendezvous.rdzv_endpoint is None:
        missing = "--rdzv-endpoint HOST:PORT, where the nodes meet"
    elif not rendezvous.is_static and rendezvous.rdzv_id is None:
        missing = "--rdzv-id ID, the same on all nodes and of this job alone"
    if missing:
        raise ConfigError(
            "the nodes would not meet",
            code="C113",
            where=" ".join(rendezvous.words()),
            expected=missing,
            found="none",
            next="emberward train RECIPE --nnodes 2 --nproc-per-node 8 --node-rank 0 --master-addr 10.0.0.1",
        )


def train_on_node(options: TrainOptions, rendezvous: Rendezvous, screen: Screen) -> int:
    """The exit code of this node's part of a training; blocks until it ends. See [Note: one command a node]."""
    require_complete(rendezvous)
    _require_no_others(options)
    assert rendezvous.nnodes is not None
    _, most = node_numbers(rendezvous.nnodes)
    is_elastic = ":" in rendezvous.nnodes
    command = (options.program, "train")
    fitted = fit_ranks(
        options.recipe,
        options.overrides,
        num_ranks=most * rendezvous.nproc_per_node,
        command=command,
        options=options.option_names,
        keeps_layout=not is_elastic,
    )
    tokenizer = open_tokenizer(fitted.loaded.recipe.data.tokenizer)
    resolved = resolve_fitted(fitted, options.overrides, tokenizer_size=tokenizer.size, command=command)
    runs = absolute(options.runs)
    place = runs / resolved.recipe.name
    switch = options.kill_switch or RunFolder(path=place / "any").kill_switch
    require_no_kill_switch(switch)
    page = page_of(resolved, hardware=options.hardware)
    screen.say(plan_text(page))
    say_notes(resolved, page, fitted.notes, screen)
    if options.is_checked and resolved.num_ranks > 1:
        proof = prove_recipe(resolved, environment=options.environment)
        screen.say(f"{'checked':<11} {proof_line(proof)}")
        if exit_code_of(proof.findings):
            for finding in proof.findings:
                screen.say(explain_finding(finding))
            screen.document((*page.findings, *proof.findings), exit_code=1)
            return 1
    nodes = runs / f"{resolved.recipe.name}-nodes"
    words = _rank_words(options, runs, is_elastic=is_elastic)
    if options.is_dry:
        screen.say("nothing was started")
        screen.document(page.findings, num_ranks=resolved.num_ranks)
        return 0
    here = node_here(str(nodes / "posts"), rendezvous.local_addr, rendezvous.host)
    run = RunOptions(
        command=(*_torchrun(), *rendezvous.words(), *words),
        name=here.host,
        runs=nodes,
        max_restarts=options.max_restarts,
        grace_s=options.grace_s,
        oversight=replace(options.oversight, node=here),
        kill_switch=switch,
        environment=_environment(options.environment, here.host, is_elastic=is_elastic),
        has_our_ranks=True,
    )
    folder, result = supervised(run, screen)
    joined = read_json(folder.path / JOINED_FILE) or {}
    summary = read_json(RunFolder(path=Path(joined["folder"])).summary) if "folder" in joined else None
    stop_by = result.stop_by
    outcome = outcome_of(
        summary=summary,
        agent_exit_code=result.exit_code,
        has_ranks=bool(joined),
        stop_by=stop_by,
        forced=False,
    )
    is_switched_off = stop_by is None and outcome is AttemptOutcome.STOPPED and switch.exists()
    code = exit_code_of_launch(outcome, stop_by, is_switched_off=is_switched_off)
    screen.document(
        result.findings,
        run=joined.get("folder"),
        supervisor=str(folder.path),
        outcome=outcome.value,
        attempts=result.num_attempts,
        exit_code=code,
    )
    return code


def _torchrun() -> tuple[str, ...]:
    return (sys.executable, "-m", "torch.distributed.run", "--monitor-interval=0.2")


def _rank_words(options: TrainOptions, runs: Path, *, is_elastic: bool) -> list[str]:
    words = ["-m", "emberward.rank", "--runs", str(runs)]
    words += ["--fresh"] if options.intent is Intent.FRESH else []
    words += ["--fits"] if is_elastic else []
    return [*words, options.recipe, *options.overrides]


def _environment(base: Mapping[str, str], host: str, *, is_elastic: bool) -> dict[str, str]:
    """What torchrun and the ranks start from.

    An elastic rendezvous gives each round a store of its own: in the agents' shared one the keys carry a count of
    restarts, on which a node that joins later does not agree (torch/distributed/rendezvous.py, 2.13).
    """
    ours = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **base, "EMBERWARD_HOST": host}
    return {**ours, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if is_elastic else ours


def _require_no_others(options: TrainOptions) -> None:
    """Raises ConfigError C113 for options of another way to start, or that ranks cannot be asked for on each node."""
    for is_given, words in (
        (options.hosts is not None, "--hosts or --launcher"),
        (options.num_ranks is not None, "--ranks"),
        (options.intent is Intent.RESUME, "--resume or --run-id"),
        (options.rewind is not None, "--rewind"),
        (options.is_screened, "--screen"),
    ):
        if is_given:
            raise ConfigError(
                "these options do not go together",
                code="C113",
                where=f"{words} beside torchrun's rendezvous",
                expected="--nnodes, --nproc-per-node and how the nodes meet; a run that is not done goes on by itself",
                found=words,
                next="emberward train RECIPE --nnodes 2 --nproc-per-node 8 --node-rank 0 --master-addr 10.0.0.1",
            )

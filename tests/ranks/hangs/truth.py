"""What is wrong with each program of this folder: the judge's answers are held against this."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Truth:
    """`line`: a text of the guilty line, or several with " or "; "" where no line is guilty.

    `is_sure`: provable before any limit. `ends`: the rank, and with it the job, ends by itself.
    """

    name: str
    family: str
    kind: str
    ranks: tuple[int, ...]
    cause: str
    line: str = ""
    world: int = 4
    is_sure: bool = True
    ends: bool = False

    @property
    def severity(self) -> str:
        """A program that goes on, or sleeps for longer than its limit, is a warning; one that may come is a notice."""
        if self.kind in ("straggler", "slowdown", "config") or self.cause == "sleep":
            return "warning"
        return "error" if self.is_sure else "notice"


TRUTHS = {
    truth.name: truth
    for truth in (
        Truth("uneven_data", "calls", "missing", (1,), "uneven_data", "dist.barrier()"),
        Truth(
            "skipped_collective", "calls", "missing", (2,), "skipped_collective", "all_gather_object( or if rank == 2"
        ),
        Truth("extra_collective", "calls", "mismatch", (0,), "extra_collective", "dist.reduce(x, 0, group=other)"),
        Truth("different_op", "calls", "mismatch", (3,), "different_op", "dist.broadcast(x, src=3)"),
        Truth("different_root", "calls", "mismatch", (2,), "different_root", "dist.broadcast(x, src=source)"),
        Truth("shape", "calls", "mismatch", (1,), "shape", "dist.all_reduce(y)", ends=True),
        Truth("dtype", "calls", "mismatch", (3,), "dtype", "dist.all_reduce(y)"),
        Truth("missing_group", "calls", "missing", (2,), "missing_group", "dist.all_reduce(x) or if rank == 2:"),
        Truth("cycle_collective", "calls", "deadlock", (), "cycle_collective"),
        Truth(
            "swallowed_exception",
            "calls",
            "missing",
            (1,),
            "swallowed_exception",
            "dist.all_reduce(x) or except ValueError",
        ),
        Truth("sleep", "host", "hang", (1,), "sleep", "time.sleep(3600)", is_sure=False),
        Truth("lock", "host", "hang", (3,), "lock", "with guard:"),
        Truth("cpu_loop", "host", "hang", (2,), "cpu_loop", "n = (n * 31 + 7) or while True:", is_sure=False),
        Truth("collect", "host", "hang", (0,), "gc", "gc.collect() or while True:", is_sure=False),
        Truth("file_read", "host", "hang", (2,), "file_read", 'with open(FOLDER / "fifo", "rb")', is_sure=False),
        Truth("child", "host", "hang", (0,), "subprocess", "subprocess.run(", is_sure=False),
        Truth("store_wait", "host", "hang", (3,), "store_wait", "store.get("),
        Truth(
            "checkpoint_io", "host", "hang", (0,), "checkpoint_io", 'with open(FOLDER / "checkpoint.pt"', is_sure=False
        ),
        Truth("compiling", "host", "hang", (1,), "compile", "torch.compile(lambda", is_sure=False),
        Truth("dataloader_worker", "data", "hang", (2,), "dataloader_worker", "threading.Event().wait()"),
        Truth("stopped_worker", "data", "hang", (1,), "dataloader_worker", "os.kill(os.getpid(), signal.SIGSTOP)"),
        Truth("uneven_loader", "data", "missing", (3,), "uneven_data", "dist.barrier()"),
        Truth("cycle_p2p", "p2p", "deadlock", (), "cycle_p2p"),
        Truth("unmatched_p2p", "p2p", "missing", (2,), "unmatched_p2p", "dist.recv(x, src=0)"),
        Truth("pipeline_stage", "p2p", "hang", (1,), "lock", "ready.wait()"),
        Truth("cycle_credit", "p2p", "deadlock", (), "cycle_credit"),
        Truth("stopped", "ends", "hang", (2,), "stopped", "os.kill(os.getpid(), signal.SIGSTOP)"),
        Truth("killed", "ends", "crash", (1,), "killed", ends=True),
        Truth("segfault", "ends", "crash", (3,), "segfault", "ctypes.string_at(0)", ends=True),
        Truth("exception", "ends", "crash", (0,), "exception", "raise ValueError(", ends=True),
        Truth("out_of_memory", "ends", "crash", (2,), "out_of_memory", "return bytearray(64 << 30)", ends=True),
        Truth("disk_full", "ends", "crash", (0,), "disk_full", "file", ends=True),
        Truth("thread_died", "ends", "hang", (1,), "thread_died", "raise RuntimeError("),
        Truth("main_exited", "ends", "hang", (2,), "main_exited", "time.sleep(1)"),
        Truth("no_end", "ends", "hang", (0,), "lock", "pthread_join("),
        Truth("forgotten_thread", "ends", "hang", (3,), "main_exited", "lines.get()"),
        Truth("ddp_lock", "parallel", "hang", (1,), "lock", "threading.Event().wait()"),
        Truth("ddp_sleep", "parallel", "hang", (3,), "sleep", "time.sleep(3600)", is_sure=False),
        Truth("fsdp_lock", "parallel", "hang", (2,), "lock", "threading.Event().wait()"),
        Truth("slow_rank", "slow", "straggler", (2,), "slow_rank", "time.sleep(STEP_S * 0.05)", is_sure=False),
        Truth("became_slow", "slow", "slowdown", (2,), "slow_rank", is_sure=False),
        Truth("slow_periodic", "slow", "straggler", (1,), "slow_periodic", "time.sleep(STEP_S / 2)", is_sure=False),
        Truth("slow_loader", "slow", "straggler", (3,), "slow_rank", "time.sleep(0.03 if", is_sure=False),
        Truth("slow_ddp", "slow", "straggler", (0,), "slow_rank", "time.sleep(STEP_S * 0.1)", is_sure=False),
        Truth("device_stall", "transport", "device", (), "device_stall", is_sure=False),
        Truth("version_skew", "skew", "config", (3,), "version_skew", is_sure=False),
        Truth("mesh_lock", "parallel", "hang", (5,), "lock", "threading.Event().wait()", world=8),
        Truth("mesh_extra", "parallel", "mismatch", (2,), "extra_collective", "dist.all_gather(", world=8),
    )
}

ALIVE = (
    "slow_first_step", "long_evaluation", "long_save", "slow_but_alive", "slow_reader", "slow_lock", "slow_producer",
    "slow_worker", "slow_child", "late_key", "late_group", "slow_stage", "slow_compile", "last_save", "rank_logs",
    "wandering", "all_slow", "rare_pauses", "own_import", "late_transfer",
    "last_upload", "last_native",
)  # fmt: skip

"""What is wrong with each program of `untuned`: explain's answers on its dumps are held against this.

A cause or a rank that a careful reader of the dumps could as well name stands in `causes` and `others`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Untuned:
    """`ranks`: the guilty ones; `others`: what may be named instead. `line`: a text of the guilty line."""

    name: str
    kinds: tuple[str, ...]
    ranks: tuple[int, ...]
    causes: tuple[str, ...]
    line: str
    others: tuple[tuple[int, ...], ...] = ()
    world: int = 4


UNTUNED = {
    truth.name: truth
    for truth in (
        Untuned(
            "metric_by_threshold",
            ("missing",),
            (1,),
            ("skipped_collective",),
            "dist.all_gather_into_tensor( or if loss > 1.0:",
        ),
        Untuned("early_stop", ("missing",), (2,), ("uneven_data",), "dist.all_gather_object("),
        Untuned("download", ("hang",), (0,), ("unknown", "file_read", "network_io"), "return line.recv(65536)"),
        Untuned("full_queue", ("hang",), (3,), ("lock", "thread_died"), 'rows.put({"step": i})'),
        Untuned("mesh_compute", ("hang",), (3,), ("cpu_loop",), "words = [words[-1] or while words"),
        Untuned(
            "lost_transfer",
            ("missing", "deadlock"),
            (1,),
            ("unmatched_p2p", "skipped_collective"),
            "dist.irecv(x, src=0, tag=3)",
            others=((0,),),
        ),
        Untuned("save_by_one", ("missing", "mismatch"), (0,), ("extra_collective",), "dist.barrier()"),
        Untuned("locked_rows", ("hang",), (2,), ("dataloader_worker",), "fcntl.flock(file, fcntl.LOCK_EX)"),
        Untuned("awaited", ("hang",), (2,), ("lock", "unknown"), "asyncio.run(upload())"),
        Untuned("pool_lost", ("hang",), (1,), ("lock", "subprocess"), "pool.map(clean, range(4))"),
        Untuned("crossed_groups", ("deadlock",), (), ("cycle_collective",), "", others=((2,), (3,), (2, 3))),
        Untuned("sharded_uneven", ("missing",), (3,), ("uneven_data",), "dist.all_reduce(loss)"),
    )
}

"""Background saves by ranks that are threads: every rank begins, then waits for what came of it."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unit.checkpoint.checkpoint_ranks import Agreement, run_ranks

from emberward import lanes
from emberward.checkpoint import DISK, BackgroundSaves, Keep, Shard, Storage, Written
from emberward.recipe import ReadBack


class Crew:
    """The background saves of `world_size` ranks into one root; each rank's writer is started by `command_of` it."""

    def __init__(
        self,
        root: Path,
        world_size: int,
        *,
        keep: Keep | None = None,
        read_back: ReadBack = ReadBack.FULL,
        storage_of: Callable[[int], Storage] = lambda rank: DISK,
        command_of: Callable[[int], Sequence[str] | None] = lambda rank: None,
    ) -> None:
        self._agreements: dict[int, Agreement] = {}
        self._lock = threading.Lock()
        self.world_size = world_size
        self.saves = [
            BackgroundSaves(
                root,
                rank=rank,
                world_size=world_size,
                agreement=self._agreement,
                jobs=lanes.lane(f"saves of rank {rank}", finishes_at_exit=False),
                keep=keep or Keep(),
                read_back=read_back,
                storage=storage_of(rank),
                command=command_of(rank),
            )
            for rank in range(world_size)
        ]

    def _agreement(self, number: int) -> Agreement:
        with self._lock:
            return self._agreements.setdefault(number, Agreement(self.world_size))

    def begin(
        self, shards_of: Sequence[Sequence[Shard]], *, step: int, meta: dict[str, Any] | None = None
    ) -> list[Any]:
        """What `begin` gave or raised on each rank."""
        return run_ranks(
            self.world_size, lambda rank: self.saves[rank].begin(step=step, shards=shards_of[rank], meta=meta or {})
        )

    def finish(self) -> list[Written]:
        """How the save ended on each rank."""
        found = run_ranks(self.world_size, lambda rank: self.saves[rank].finish())
        assert all(isinstance(each, Written) for each in found), found
        return [each for each in found if isinstance(each, Written)]

    def close(self) -> None:
        for save in self.saves:
            save.close()

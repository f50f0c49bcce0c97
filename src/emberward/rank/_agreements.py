"""How ranks agree beside the training: over a store, on a connection of their own.

[Note: agreements of saves]
The agreements of background saves must not be collectives: a thread that issued them between those of a step would
leave their order to chance, on every rank differently. A store has no order between keys. The store's connection is
a clone, because a client that waits for a key holds up every other call on its connection.
"""

from datetime import timedelta
from pathlib import Path

from torch._C._distributed_c10d import Store

from emberward.checkpoint import NUM_AGREEMENTS, Agree, BackgroundSaves, Keep
from emberward.engine import World
from emberward.findings import Cause, EmberwardError
from emberward.lanes import Lane, lane
from emberward.recipe import Recipe


class SaveAgreements:
    """The agreements of an attempt's background saves: `agreement` gives the n-th's. See [Note: agreements of saves].

    `store` is shared by the attempt's ranks and holds no key of an attempt before. A rank waits for the others at most
    `timeout_s`.
    """

    def __init__(self, store: Store, *, rank: int, world_size: int, timeout_s: float) -> None:
        self._store: Store = store.clone()  # type: ignore[attr-defined]  # torch 2.13's stubs lack it
        self._rank = rank
        self._world_size = world_size
        self._timeout_s = timeout_s

    def agreement(self, save: int) -> Agree:
        """How the ranks agree in the save with this number. Does not communicate; what it gives does, and blocks."""
        votes = iter(range(NUM_AGREEMENTS))

        def agree(is_well: bool) -> bool:
            return self._vote(f"save/{save}/{next(votes)}", is_well)

        if self._rank == 0 and save >= 2:
            # When the last save has ended here, every rank had come to it, and so was done with the one before.
            for vote in range(NUM_AGREEMENTS):
                for key in ("no", "votes", "all"):
                    self._store.delete_key(f"save/{save - 2}/{vote}/{key}")
        return agree

    def _vote(self, key: str, is_well: bool) -> bool:
        """Whether every rank was well. The last one to vote counts, so that all read one answer."""
        store = self._store
        try:
            store.add(f"{key}/no", 0 if is_well else 1)
            if store.add(f"{key}/votes", 1) == self._world_size:
                store.set(f"{key}/all", "no" if store.add(f"{key}/no", 0) else "yes")
            store.wait([f"{key}/all"], timedelta(seconds=self._timeout_s))
            return bool(store.get(f"{key}/all") == b"yes")
        except RuntimeError as error:
            raise EmberwardError(
                "the ranks did not agree about the checkpoint",
                code="K103",
                where=f"rank {self._rank}, {key}",
                expected=f"an answer of {self._world_size} ranks within {self._timeout_s:g} s",
                found=str(error).splitlines()[0],
                next="look for a rank whose disk stands still; the saves before this one are untouched",
                cause=Cause.CHECKPOINT_IO,
            ) from error


def save_lane() -> Lane:
    """The lane that does this rank's saves. A failed run does not wait for a save: the one before it is whole."""
    return lane("saves", finishes_at_exit=False)


def saves_beside(root: Path, recipe: Recipe, world: World, store: Store) -> BackgroundSaves:
    """This rank's saves beside the training, over `store`, which the attempt's ranks share for this alone."""
    agreements = SaveAgreements(store, rank=world.rank, world_size=world.mesh.size, timeout_s=recipe.timeout_s)
    return BackgroundSaves(
        root,
        rank=world.rank,
        world_size=world.mesh.size,
        agreement=agreements.agreement,
        jobs=save_lane(),
        keep=Keep(last=recipe.save.keep, every=recipe.save.keep_every),
        read_back=recipe.save.verify,
    )

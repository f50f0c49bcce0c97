import threading

import torch


class Shelf:
    """Prepares batches of phrases in a thread; holds the lock only to hand over."""

    def __init__(self, songs, batch, length, depth=4):
        self.songs, self.batch, self.length, self.depth = songs, batch, length, depth
        self.ready, self.change = [], threading.Condition()
        self.open = True
        self.g = torch.Generator().manual_seed(11)
        threading.Thread(target=self.fill, daemon=True).start()

    def make(self):
        at = torch.randint(0, self.songs.numel() - self.length - 1, (self.batch, 1), generator=self.g)
        rows = self.songs[at + torch.arange(self.length + 1)]
        return rows[:, :-1], rows[:, 1:]

    def fill(self):
        while self.open:
            made = self.make()
            with self.change:
                self.change.wait_for(lambda: len(self.ready) < self.depth or not self.open)
                self.ready.append(made)
                self.change.notify_all()

    def take(self):
        with self.change:
            self.change.wait_for(lambda: self.ready)
            made = self.ready.pop(0)
            self.change.notify_all()
        return made

    def close(self):
        with self.change:
            self.open = False
            self.change.notify_all()

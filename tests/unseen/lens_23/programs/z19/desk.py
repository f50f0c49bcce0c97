import multiprocessing


class Desk:
    """A desk in a process of its own, where a person (or the data's workers) may change what the training does."""

    def __init__(self):
        self.manager = multiprocessing.Manager()
        self.board = self.manager.dict(noise=0.3, pause=False, note="")

    def look(self):
        return self.board.copy()

    def close(self):
        self.manager.shutdown()

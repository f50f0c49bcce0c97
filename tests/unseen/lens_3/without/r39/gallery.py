"""Pictures of what the net makes, for the wall in the corridor."""
import time


def _levels(picture):
    low, high = min(picture), max(picture)
    span = (high - low) or 1.0
    return [" .:-=+*#%@"[int(9 * (v - low) / span)] for v in picture]


class Gallery:
    def __init__(self):
        self.hung = 0

    def hang(self, pictures):
        for picture in pictures.detach().tolist():
            signs = _levels(picture)
            assert len(signs) == len(picture)
            time.sleep(0.012)                    # the plotter draws
            self.hung += 1

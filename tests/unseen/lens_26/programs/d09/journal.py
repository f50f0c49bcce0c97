import json

import numpy as np


class Journal:
    """A file of the run, a line for each thing noted."""

    def __init__(self, path, bins=64):
        self.file = open(path, "w")
        self.bins = bins

    def note(self, step, **values):
        self.file.write(json.dumps({"step": step, **values}) + "\n")

    def spread(self, step, model):
        """How weights and gradients are spread, for the dashboard."""
        found = {}
        for name, weight in model.named_parameters():
            for what, tensor in (("weight", weight.detach()), ("grad", weight.grad)):
                counts, edges = np.histogram(tensor.numpy(), self.bins)
                found[f"{name}/{what}"] = {"counts": counts.tolist(), "edges": edges.tolist()}
        self.note(step, spread=found)

    def close(self):
        self.file.close()

"""What happened in the run, for the notebook that draws the curves."""
import json


class History:
    def __init__(self, path):
        self.path = path
        self.records = []

    def add(self, step, pictures, guesses, losses, lr):
        record = {"step": step, "lr": lr, "pictures": pictures.tolist(), "guesses": guesses.tolist(), "losses": losses.tolist()}
        with open(self.path, "a") as f:
            f.write(json.dumps(record) + "\n")

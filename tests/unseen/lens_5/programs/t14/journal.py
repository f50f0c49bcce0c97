import json


class Journal:
    def __init__(self, path):
        self.file = open(path, "w")

    def write(self, step, counts):
        right, loss = counts.tolist()
        self.file.write(json.dumps({"step": step, "right": right, "loss": loss}) + "\n")
        self.file.flush()

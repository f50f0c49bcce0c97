import json


class Journal:
    """A file of the run, a line for each thing noted."""

    def __init__(self, path):
        self.file = open(path, "w")

    def note(self, step, **values):
        self.file.write(json.dumps({"step": step, **values}) + "\n")

    def close(self):
        self.file.close()

import csv


class Diary:
    """One line a step, written at once, so that a run that dies leaves its curve behind."""

    def __init__(self, path, fields):
        self.file = open(path, "w", newline="")
        self.writer = csv.DictWriter(self.file, fields)
        self.writer.writeheader()

    def add(self, **row):
        self.writer.writerow(row)
        self.file.flush()

    def close(self):
        self.file.close()

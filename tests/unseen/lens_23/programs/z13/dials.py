import os

import yaml


class Dials:
    """Dials that the one on duty may turn during the night."""

    def __init__(self, path):
        self.path, self.read_at, self.values = path, None, None

    @classmethod
    def fresh(cls, folder):
        path = os.path.join(folder, "dials.yaml")
        values = {"lr": 8e-4, "noise": 0.05, "mix": [0.5, 0.3, 0.2], "stations": {f"hut{n}": {"use": True, "height": 1200 + 90 * n} for n in range(60)}}
        with open(path, "w") as file:
            yaml.safe_dump(values, file)
        return cls(path)

    def current(self):
        changed = os.stat(self.path).st_mtime_ns
        if changed != self.read_at:
            with open(self.path) as file:
                self.values = yaml.safe_load(file)
            self.read_at = changed
        return self.values

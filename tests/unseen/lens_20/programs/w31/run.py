import resource
import subprocess


def version():
    """Of the tool that keeps the text of this program, for the record of the run."""
    return subprocess.run(["git", "--version"], capture_output=True, text=True).stdout.strip()


class Run:
    def __init__(self):
        self.version = version()
        self.memory, self.losses = [], []

    def note(self, loss):
        self.losses.append(loss)
        self.memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

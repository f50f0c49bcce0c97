import io
import time

BYTES_A_SECOND = 10e6


class SlowFile(io.FileIO):
    def write(self, data):
        n = super().write(data)
        if n > 4096:
            time.sleep(n / BYTES_A_SECOND)
        return n


class GroupDisk:
    """A disk shared by many: 10 MB a second for each."""
    def open(self, name):
        return SlowFile(name, "w")

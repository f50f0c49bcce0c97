class Entry:
    def __init__(self, key, size):
        self.key = key
        self.words = [key, key + 1]
        self.meta = {"size": size, "near": (self.words, [])}


def read_catalogue(count):
    """All the entries of the library, held in memory."""
    return {k: Entry(k, k % 97) for k in range(count)}

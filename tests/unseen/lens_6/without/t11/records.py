"""The data set: records as Python objects."""


class Record:
    def __init__(self, index):
        self.tags = [index % 7, index % 11]
        self.meta = {"id": index, "links": [index + 1, index + 2]}


def load(count):
    return [Record(index) for index in range(count)]

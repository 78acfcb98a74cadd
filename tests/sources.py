"""A source of examples that are read when they are drawn."""


class Source:
    """The rows of arrays, as tuples."""

    def __init__(self, *columns):
        self.columns = columns

    def __len__(self):
        return len(self.columns[0])

    def __getitem__(self, index):
        return tuple(column[index] for column in self.columns)

"""Errors of data sets that cannot be read."""


class DatasetNotFoundError(FileNotFoundError):
    """A data set is not in the folder looked into."""


class DatasetCorruptError(RuntimeError):
    """The folder of a data set is there but cannot be read."""

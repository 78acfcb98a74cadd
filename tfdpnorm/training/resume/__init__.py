"""Files of a run, from which it can be resumed."""

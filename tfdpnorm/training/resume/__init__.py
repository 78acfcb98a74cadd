"""What a run keeps on the disk, so that it can be resumed."""

"""Our own experiments: fine-tuning, public-batch normalisation itself, and searches."""

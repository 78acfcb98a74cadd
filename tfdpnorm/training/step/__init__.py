"""One update: streams, views, loss, clipped sum and noise."""

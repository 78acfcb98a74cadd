"""Per-example gradients of one variable, in the forms in which they are cheapest to keep."""

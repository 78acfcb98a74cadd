"""Tables and plots, made from records."""

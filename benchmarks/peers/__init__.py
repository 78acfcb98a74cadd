"""The same models and steps in other frameworks; each module needs its own to be installed."""

"""Searches for settings of the papers' cells, and what such a search is worth."""

from tfdpnorm.experiments.search.cells import EXPERIMENTS

__all__ = ["EXPERIMENTS", "kinds"]


def kinds():
    """Returns the kinds of run that the specs are of; loads TensorFlow."""
    from tfdpnorm.experiments.runs.private import PrivateRun
    from tfdpnorm.experiments.search.plain import PlainSearchRun, WeightNoiseSearchRun
    from tfdpnorm.experiments.search.run import (
        FinetuneSearchRun,
        SearchRun,
        VariationalSearchRun,
    )

    paid = SearchRun, VariationalSearchRun, FinetuneSearchRun
    return *paid, PlainSearchRun, WeightNoiseSearchRun, PrivateRun

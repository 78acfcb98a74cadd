"""Our own experiments: fine-tuning, public-batch normalisation itself, and searches."""

from trainers.ours import finetune_cells, method_cells, search_cells

__all__ = ["EXPERIMENTS", "kinds"]

EXPERIMENTS = {
    **finetune_cells.EXPERIMENTS,
    **method_cells.EXPERIMENTS,
    **search_cells.EXPERIMENTS,
}


def kinds():
    """Returns the kinds of run that the specs are of; loads TensorFlow."""
    from trainers.runs.finetune import FinetuneRun
    from trainers.runs.private import PrivateRun
    from trainers.searches.plain import PlainSearchRun, WeightNoiseSearchRun
    from trainers.searches.run import FinetuneSearchRun, SearchRun, VariationalSearchRun

    paid = SearchRun, VariationalSearchRun, FinetuneSearchRun
    return FinetuneRun, *paid, PlainSearchRun, WeightNoiseSearchRun, PrivateRun

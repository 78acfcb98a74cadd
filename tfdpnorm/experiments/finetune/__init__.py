"""Fine-tuning of imported models: cells and settings."""

from tfdpnorm.experiments.finetune.cells import EXPERIMENTS

__all__ = ["EXPERIMENTS", "kinds"]


def kinds():
    """Returns the kinds of run that the specs are of; loads TensorFlow."""
    from tfdpnorm.experiments.runs.finetune import FinetuneRun

    return (FinetuneRun,)

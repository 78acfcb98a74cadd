"""Words of plots: their titles, the scale of their runs, and what points and bars stand for."""

import collections
import re

# By experiment; others have their name as title.
_TITLES = {
    "davody_digits": "Private LeNet-5 on DIGITS",
    "davody_figure1": "Training with noise in the weights (not private)",
    "davody_statistics": "Statistics of public-batch normalisation on MNIST",
    "davody_table2": "LeNets on MNIST with noise in the weights (not private)",
    "davody_table3": "Networks on CIFAR-10 with noise in the weights (not private)",
    "davody_table4": "BiLSTM on AG News with noise in the weights (not private)",
    "davody_table5": "Private LeNet-5 on MNIST",
    "davody_table6": "Private linear layers on CIFAR-10, pre-trained convolutions",
    "davody_table7": "Private BiLSTM on AG News",
    "ermis_figure1": "Training on MNIST: variational dropout, SVI and DP-SGD",
    "ermis_figure2": "Training on DIGITS: variational dropout, SVI and DP-SGD",
    "ermis_figure4": "Training at epsilon 0.1 and without privacy",
    "ermis_figure5": "Private variational dropout on MNIST at epsilon 1, one setting at a time",
    "ermis_settings": "Private variational dropout on DIGITS, one setting at a time",
    "ermis_table1": "Private variational dropout, SVI and DP-SGD",
    "finetune_cifar10": "Private head on CIFAR-10, features of EfficientNet-Lite0",
    "klause_appendix_b": "Batch normalisation on CIFAR-10 (not private)",
    "klause_norms": "Private ResNet-9 on CIFAR-10 by normalisation",
    "klause_norms_narrow": "Private narrow ResNet-9, CIFAR-10 at 16 pixels, by normalisation",
    "klause_wide": "Private WRN-16-1 with and without ScaleNorm, CIFAR-10 at 16 pixels",
    "klause_table1": "Private ResNet-9 with and without ScaleNorm",
    "klause_table2": "Private WRN-16-4 and ResNet-9 on CIFAR-10",
    "klause_table3": "Private ResNet-50 on ImageNette",
    "klause_table4": "Private ResNet-9: best of all runs",
    "method_public_rows": "Real and synthetic public examples",
    "method_small_data": "Normalisations with few examples or few updates",
    "one_release": "Linear heads from one noisy release",
    "without_public_data": "Linear heads on fixed features, without public images",
    "private_search": "Private searches and single runs at epsilon 3",
}
_NUMBERS = "no one two three four five six seven eight nine ten".split()


def title(experiment, records, *more):
    """What a plot shows, such as "Private LeNet-5 on MNIST, delta = 1e-5, three runs".

    `more` are further words; a second line says so of a reduced scale.
    """
    parts = [_TITLES.get(experiment, experiment.replace("_", " ")), *more]
    deltas = {r["delta"] for r in records if r["epsilon_target"] is not None} - {None}
    if len(deltas) == 1:
        delta = re.sub(r"e([+-])0*", r"e\1", f"{deltas.pop():g}")
        parts.append(f"delta = {delta}")
    parts.append(runs(records))
    is_reduced = any(record["scale"] not in (None, "full") for record in records)
    reduced = "\nreduced scale: see the table" if is_reduced else ""
    return ", ".join(filter(None, parts)) + reduced


def runs(records):
    """How many runs there are of each cell, in words; "" without records."""
    counts = set(collections.Counter((r["network"], r["column"]) for r in records).values())
    if not counts:
        return ""
    least, most = min(counts), max(counts)
    if least == most:
        number = _NUMBERS[most] if most < len(_NUMBERS) else str(most)
        return f"{number} run" if most == 1 else f"{number} runs"
    return f"{least} to {most} runs"


def note(points, records, paper):
    """What points (such as "mean"), bars and the paper's crosses are, in a sentence each."""
    several = runs(records) not in ("", "one run")
    parts = [f"Shown: {points} of the runs. Error bars: least to largest run."] if several else []
    return " ".join([*parts, *(["Crosses: the paper."] if paper else [])])


def panel_of(experiment, network, many):
    """In which panel of a plot a network is, by a name; "" for the only one.

    `many` says that there are more networks than one panel can show.
    """
    parts = network.split("-")
    if experiment == "finetune_cifar10":
        return next((part for part in parts if part.endswith("px")), "")
    if experiment == "one_release":
        return ""
    if experiment.startswith(("klause_table1", "method_")) or many:
        return parts[0]
    return ""


def in_panel(labels, panel):
    """Labels of networks without the name of their panel, and without what all of them say."""
    split = [[part for part in label.split("-") if part != panel] or [label] for label in labels]
    shared = set.intersection(*map(set, split)) if len(split) > 1 else set()
    return ["-".join([p for p in parts if p not in shared] or parts) for parts in split]

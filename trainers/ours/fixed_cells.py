"""Ours: a linear head on fixed features, without any public image; cells and settings.

How the settings were found is in results/SEARCH.md.
"""

from trainers.cells import column_of_privacy
from trainers.ours import finetune_cells as finetune
from trainers.report.markdown import mean_text, table
from trainers.report.tables import TableForm

_ANY = dict(
    l2_norm_clip=0.3,
    momentum=0.9,
    accountant="pld",
    public_dataset="synthetic:fractal",  # of which an export alone would make use
    evaluations=1,
    search="rate over a few heads on held-out training images; not accounted for in epsilon",
)
# By data set: features, expected batch size, epochs, and the learning rate by epsilon.
SETTINGS = {
    "mnist": ("scattering_grey", 4096, 30, {1.0: 40.0, 3.0: 100.0}),
    "kmnist": ("scattering_grey", 1024, 30, {1.0: 10.0, 3.0: 30.0}),
    "cifar10": ("patches_colour", 4096, 30, {1.0: 30.0, 3.0: 80.0, 8.0: 120.0}),
}
_SCATTERING = "Tramer and Boneh (2021), scattering features,"
# (data set, epsilon, test accuracy at delta 1e-5 without public images, source, trained weights).
PUBLISHED = (
    ("mnist", 3.0, 98.7, f"{_SCATTERING} linear head", 39_700),
    ("cifar10", 1.0, 60.6, "the best before, as Tang et al. (2023) cite it", None),
    ("cifar10", 1.0, 72.3, "Tang et al. (2023), WRN-16-4, prior from random processes", 2_752_506),
    ("cifar10", 3.0, 67.0, f"{_SCATTERING} linear head", 155_530),
    ("cifar10", 3.0, 69.3, f"{_SCATTERING} two convolutions", 187_210),
    ("cifar10", 8.0, 81.4, "De et al. (2022), WRN-40-4", 8_959_994),
)


def cells():
    """The specs of `without_public_data`, each with the best published figure."""
    return [
        finetune.spec(
            dataset,
            epsilon,
            experiment="without_public_data",
            network=f"{dataset}-{model}",
            model=model,
            paper_value=max((p[2] for p in PUBLISHED if p[:2] == (dataset, epsilon)), default=None),
            expected_batch_size=batch,
            epochs=epochs,
            learning_rate=rate,
            **_ANY,
        )
        for dataset, (model, batch, epochs, rates) in SETTINGS.items()
        for epsilon, rate in rates.items()
    ]


def notes(records):
    """Returns the published figures next to ours, Markdown."""
    rows = []
    for dataset, epsilon, accuracy, source, weights in PUBLISHED:
        cell = f"{dataset}-{SETTINGS[dataset][0]}/{column_of_privacy(epsilon)}"
        ours = [record["test_accuracy"] for record in records if record["cell"] == cell]
        found = mean_text(ours) if ours else ""
        size = "" if weights is None else f"{weights:,}"
        rows.append((dataset, f"{epsilon:g}", found, f"{accuracy:.1f}", source, size))
    header = ("data", "epsilon", "ours", "published", "source", "its trained weights")
    return [table(header, rows, rule="---")]


EXPERIMENTS = {"without_public_data": cells}
NOTES = {"without_public_data": notes}
FORMS = {"without_public_data": TableForm(beside="best published")}

"""The checks of specs whose fields depend on each other."""

import pathlib

from tfdpnorm import arguments
from tfdpnorm.choices import MODELS, SYNTHETIC_KINDS
from trainers.data.catalogue import known_names
from trainers.specs.parts import DROPOUTS

# Other numbers of moved views would favour a direction (`runs.build`).
MULTIPLICITIES = (1, 5, 9)


def check_not_private(name, public, private):
    """Raises ValueError for a public set that is the private one, each a name or a path."""
    if pathlib.Path(public).resolve() == pathlib.Path(private).resolve():
        raise ValueError(
            f"Expected another {name} than the private dataset, got {public!r} and {private!r}. "
            "Statistics of the private examples without noise are not private."
        )


def _rejection(expected, remedy="", **got):
    shown = " and ".join(f"{name}={value!r}" for name, value in got.items())
    return ValueError(f"Expected {expected}, got {shown}.{' ' if remedy else ''}{remedy}")


def check_vocabulary(spec):
    """Raises ValueError for a file without the vocabulary that it is for, or the reverse."""
    if (spec.vocabulary_file is None) == (spec.vocabulary == "public"):
        raise _rejection(
            "vocabulary_file with vocabulary='public' and only there",
            vocabulary=spec.vocabulary,
            vocabulary_file=spec.vocabulary_file,
        )


def check_model(name):
    if name in MODELS:
        return
    from tfdpnorm.models import names  # More can be registered; loads TensorFlow.

    arguments.choice("model", name, names())


def check_public_dataset(name):
    """Raises ValueError for public rows that are neither a known set nor synthetic."""
    synthetic = (f"synthetic:{kind}" for kind in SYNTHETIC_KINDS)
    choices = (*known_names(), "split", "synthetic", *synthetic)
    arguments.choice("public_dataset", name, choices)


def check_norm(spec):
    if spec.norm == "batch":
        raise ValueError(
            'Expected a normalisation that treats each example by itself, got norm="batch": '
            "ordinary batch normalisation mixes the examples of a batch and cannot be trained "
            'privately. Use norm="public_batch", "group" or "layer".'
        )
    if spec.statistics_budget_share is not None and spec.norm != "noised_batch":
        raise ValueError(
            "Expected statistics_budget_share with norm='noised_batch' only, got "
            f"{spec.statistics_budget_share!r} with norm={spec.norm!r}."
        )


def check_public_data(spec):
    check_public_dataset(spec.public_dataset)
    if spec.is_pretrained:
        check_not_private("pretraining_dataset", spec.pretraining_dataset, spec.dataset)
    if spec.needs_public_rows or spec.finetuning.feature_scaling == "public":
        check_not_private("public_dataset", spec.public_dataset, spec.dataset)
    if spec.plateau_dataset is not None:
        check_not_private("plateau_dataset", spec.plateau_dataset, spec.dataset)


def check_views(spec):
    if spec.views == "moved":
        arguments.choice(
            "augmentation_multiplicity",
            spec.augmentation_multiplicity,
            MULTIPLICITIES,
            remedy='With views="random" it may be any number.',
        )


def check_plateau(spec):
    if (spec.plateau_dataset is None) == (spec.plateau == "public"):
        raise _rejection(
            "plateau_dataset with plateau='public' and only there",
            plateau=spec.plateau,
            plateau_dataset=spec.plateau_dataset,
        )
    _check_rate_on_plateaus(spec)
    if spec.plateau == "test" and spec.held_out is not None:
        raise ValueError(
            f"held_out={spec.held_out} cannot be combined with plateau='test': held-out examples "
            "are private training examples, and no test set is loaded. Use plateau='private'."
        )


def check_validation(spec):
    """Raises ValueError for what looks at held-out examples where there are none."""
    _check_rate_on_plateaus(spec)
    looks = [f"plateau={spec.plateau!r}"] if spec.plateau != "none" else []
    looks += [f"early_stopping={spec.early_stopping!r}"] if spec.early_stopping else []
    if looks and not spec.validation_examples:
        raise ValueError(
            f"Expected validation_examples >= 1 with {' and '.join(looks)}, got 0. Hold some out."
        )


def _check_rate_on_plateaus(spec):
    if spec.plateau != "none" and spec.learning_rate_schedule != "constant":
        raise ValueError(
            "Expected learning_rate_schedule='constant' with a plateau, got "
            f"{spec.learning_rate_schedule!r}. Leave one of them out."
        )


def check_method(spec):
    of = spec.variational
    optimizer = {"optimizer": spec.optimizer}
    if of.method == "none" and not spec.is_unclipped:
        raise _rejection("epsilon=inf with method='none'", epsilon=spec.epsilon)
    if of.calibrated_by is not None and (spec.epsilon is None or spec.is_unclipped):
        raise _rejection(
            f"a finite epsilon with calibrated_by={of.calibrated_by!r}", epsilon=spec.epsilon
        )
    if of.prior_stddev is not None and (of.method, spec.optimizer) != ("svi", "sgd"):
        expected = "prior_stddev with method='svi' and optimizer='sgd'"
        raise _rejection(expected, method=of.method, **optimizer)
    if of.method == "dpvd" and (spec.optimizer, spec.momentum) != ("sgd", 0):
        raise _rejection(
            "optimizer='sgd' and momentum=0 with method='dpvd', whose noise is that of such "
            "updates",
            **optimizer,
            momentum=spec.momentum,
        )
    for name in ("kl_weight", "max_alpha"):
        if getattr(of, name) and of.method != "dpvd":
            raise _rejection(f"{name} with method='dpvd'", "Leave it out.", method=of.method)
    if of.method in DROPOUTS and spec.model != "mlp":
        expected = f"model='mlp' with method={of.method!r}"
        raise _rejection(expected, "Choose another method.", model=spec.model)
    if of.reading == "as_printed":
        _check_as_printed(spec)


def _check_as_printed(spec):
    of = spec.variational
    if of.method != "dpvd" or of.calibrated_by is None:
        raise _rejection(
            "method='dpvd' and calibrated_by='ac' or 'zcdp' for Algorithm 1 as printed",
            method=of.method,
            calibrated_by=of.calibrated_by,
        )
    ours = {
        "learning_rate_schedule": "power",
        "learning_rate_round": "update",
        "clipping": "per_layer",
        "max_alpha": None,
    }
    other = {n: spec.settings[n] for n, value in ours.items() if spec.settings[n] != value}
    if other:
        raise ValueError(f"Expected {ours} for Algorithm 1 as printed, got {other}.")


def check_imported(spec):
    scaling = spec.finetuning.feature_scaling
    if spec.finetuning.head == "imported" and (spec.norm, scaling) != ("none", "none"):
        raise _rejection(
            "norm and feature_scaling to be none with head=imported, whose last layer was trained "
            "on the features as they are",
            norm=spec.norm,
            feature_scaling=scaling,
        )
    if scaling == "public" and spec.public_dataset == "split":
        raise _rejection(
            "a public data set, or synthetic images, with feature_scaling=public",
            "Name one that is not private.",
            public_dataset=spec.public_dataset,
        )


def check_solved(spec):
    """Raises ValueError for settings that a head which one release gives has no use for."""
    settings = spec.settings
    for name, expected, remedy in (
        ("norm", ("none",), "Features are whitened with public ones."),
        ("trainable", (None, "head"), "Nothing is trained."),
        ("plateau", ("none",), "Nothing is trained."),
        ("augmentation_multiplicity", (1,), "Nothing is trained."),
        ("views", ("moved",), "Nothing is trained."),
        ("unit", (None, "person"), "Protect persons: set most_per_person."),
    ):
        if settings[name] not in expected:
            raise ValueError(
                f"Expected {name} to be {' or '.join(map(repr, expected))} with "
                f"head='least_squares', got {settings[name]!r}. {remedy}"
            )
    if spec.public_dataset.startswith("synthetic"):
        raise _rejection(
            "a public data set with head='least_squares'",
            "Its features whiten the private ones: name a set of such public images.",
            public_dataset=spec.public_dataset,
        )


def check_persons(spec):
    """Raises ValueError for persons that are not known, or settings that do not protect them."""
    feature, most = spec.person_feature, spec.most_per_person
    if spec.unit is not None and most is None:
        raise ValueError(
            f"Expected most_per_person with unit={spec.unit!r}, got None. Give the most images of "
            "a person, or leave the unit out."
        )
    if (feature is None) != (most is None) and spec.stated_per_person is None:
        raise ValueError(
            f"Expected person_feature and most_per_person together, got person_feature={feature!r} "
            f"and most_per_person={most!r}. Give the person of each image, and how many images of "
            "a person an update may read."
        )
    if feature is None:
        return
    if not spec.finetuning.is_imported or spec.dataset in known_names():
        raise ValueError(
            f"Expected a folder of images or a CSV file with person_feature, got {spec.dataset!r}, "
            "which does not contain the person of each image."
        )
    if spec.drawn_per_person is not None and spec.plateau == "private":
        raise ValueError(
            "Expected plateau='none', 'public' or 'test' with most_per_person, got 'private', "
            "whose noise hides one image, not all images of a person."
        )

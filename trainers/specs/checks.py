"""The checks of specs whose fields depend on each other."""

import pathlib

from tfdpnorm import arguments
from tfdpnorm.choices import MODELS, SYNTHETIC_KINDS
from trainers.data.catalogue import known_names

# Other numbers of moved views would favour a direction (`runs.build`).
MULTIPLICITIES = (1, 5, 9)


def check_not_private(name, public, private):
    """Raises ValueError for a public set that is the private one, each a name or a path."""
    if pathlib.Path(public).resolve() == pathlib.Path(private).resolve():
        raise ValueError(
            f"Expected another {name} than the private dataset, got {public!r} and {private!r}. "
            "Statistics of the private examples without noise are not private."
        )


def check_vocabulary(spec):
    """Raises ValueError for a file without the vocabulary that it is for, or the reverse."""
    if (spec.vocabulary_file is None) == (spec.vocabulary == "public"):
        raise ValueError(
            "Expected vocabulary_file with vocabulary='public' and only there, got "
            f"vocabulary={spec.vocabulary!r} and vocabulary_file={spec.vocabulary_file!r}."
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


def check_trainable(name, value):
    """Raises ValueError for strings that `tfdpnorm.convert.freeze` does not take."""
    number = value.removeprefix("last:")
    if value not in ("all", "head") and (
        number == value or not number.isdecimal() or number == "0"
    ):
        raise arguments.refusal(name, 'to be "head", "last:N" or "all"', value)


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
    if spec.needs_public_rows or spec.feature_scaling == "public":
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
        raise ValueError(
            "Expected plateau_dataset with plateau='public' and only there, got "
            f"plateau={spec.plateau!r} and plateau_dataset={spec.plateau_dataset!r}."
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
    looks = [
        f"{name}={value!r}"
        for name, value, off in (
            ("plateau", spec.plateau, "none"),
            ("early_stopping", spec.early_stopping, None),
        )
        if value != off
    ]
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
    if spec.method == "none" and not spec.is_unclipped:
        raise ValueError(f"Expected epsilon=inf with method='none', got epsilon={spec.epsilon!r}.")
    if spec.calibrated_by is not None and (spec.epsilon is None or spec.is_unclipped):
        raise ValueError(
            f"Expected a finite epsilon with calibrated_by={spec.calibrated_by!r}, got "
            f"{spec.epsilon!r}."
        )
    if spec.prior_stddev is not None and (spec.method, spec.optimizer) != ("svi", "sgd"):
        raise ValueError(
            "Expected prior_stddev with method='svi' and optimizer='sgd', got "
            f"method={spec.method!r} and optimizer={spec.optimizer!r}."
        )
    if spec.method == "dpvd" and (spec.optimizer, spec.momentum) != ("sgd", 0):
        raise ValueError(
            "Expected optimizer='sgd' and momentum=0 with method='dpvd', whose noise is that "
            f"of such updates, got {spec.optimizer!r} and {spec.momentum!r}."
        )
    for name in ("kl_weight", "max_alpha"):
        if getattr(spec, name) and spec.method != "dpvd":
            raise ValueError(
                f"Expected {name} with method='dpvd', got method={spec.method!r}. Leave it out."
            )
    if spec.method in ("dropout", "gaussian_dropout") and spec.model != "mlp":
        raise ValueError(
            f"Expected model='mlp' with method={spec.method!r}, got model={spec.model!r}. Choose "
            "another method."
        )
    if spec.reading == "as_printed":
        _check_as_printed(spec)


def _check_as_printed(spec):
    if spec.method != "dpvd" or spec.calibrated_by is None:
        raise ValueError(
            "Expected method='dpvd' and calibrated_by='ac' or 'zcdp' for Algorithm 1 as "
            f"printed, got method={spec.method!r} and calibrated_by={spec.calibrated_by!r}."
        )
    ours = {
        "learning_rate_schedule": "power",
        "learning_rate_round": "update",
        "clipping": "per_layer",
        "max_alpha": None,
    }
    other = {name: getattr(spec, name) for name in ours if getattr(spec, name) != ours[name]}
    if other:
        raise ValueError(f"Expected {ours} for Algorithm 1 as printed, got {other}.")


def check_imported(spec):
    if spec.head == "imported" and (spec.norm, spec.feature_scaling) != ("none", "none"):
        raise ValueError(
            "Expected norm and feature_scaling to be none with head=imported, got "
            f"{spec.norm!r} and {spec.feature_scaling!r}: that layer was trained on the "
            "features as they are."
        )
    if spec.feature_scaling == "public" and spec.public_dataset == "split":
        raise ValueError(
            "Expected a public data set, or synthetic images, with feature_scaling=public, got "
            "public_dataset='split'. Name one that is not private."
        )


def check_solved(spec):
    """Raises ValueError for settings that a head which one release gives has no use for."""
    for name, expected, remedy in (
        ("norm", ("none",), "Features are whitened with public ones."),
        ("trainable", (None, "head"), "Nothing is trained."),
        ("plateau", ("none",), "Nothing is trained."),
        ("augmentation_multiplicity", (1,), "Nothing is trained."),
        ("views", ("moved",), "Nothing is trained."),
        ("unit", (None, "person"), "Protect persons: set most_per_person."),
    ):
        value = getattr(spec, name)
        if value not in expected:
            raise ValueError(
                f"Expected {name} to be {' or '.join(map(repr, expected))} with "
                f"head='least_squares', got {value!r}. {remedy}"
            )
    if spec.public_dataset.startswith("synthetic"):
        raise ValueError(
            "Expected a public data set with head='least_squares', got public_dataset="
            f"{spec.public_dataset!r}. Its features whiten the private ones: name a set of such "
            "public images."
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
    if spec.trainable is None or spec.dataset in known_names():
        raise ValueError(
            f"Expected a folder of images or a CSV file with person_feature, got {spec.dataset!r}, "
            "which does not contain the person of each image."
        )
    if spec.drawn_per_person is not None and spec.plateau == "private":
        raise ValueError(
            "Expected plateau='none', 'public' or 'test' with most_per_person, got 'private', "
            "whose noise hides one image, not all images of a person."
        )

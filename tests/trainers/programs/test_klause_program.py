"""The program of Klause et al.: its flags reach the spec, and mistakes end in a line."""

import math

import pytest

from tfdpnorm.keras_compat.devices_and_precision import half_precision
from trainers import common, registry
from trainers.klause import cells as klause


@pytest.fixture
def spec_of(main, monkeypatch):
    """Returns a function from flags to the spec that would be trained."""

    def parse(*flags):
        seen = []
        monkeypatch.setattr(common, "train", seen.append)
        result = main("klause_scalenorm", *flags)
        assert result.code == 0, result.err
        return seen[0]

    return parse


@pytest.mark.parametrize(
    "flags, expected",
    [
        (("--epsilon=7.42",), ("cifar10", "resnet9", 7.42, {})),
        (("--epsilon=7.42", "--scale_norm"), ("cifar10", "resnet9", 7.42, {"scale_norm": True})),
        (
            ("--epsilon=8", "--model=wide_resnet", "--depth=40", "--noscale_norm"),
            ("cifar10", "wide_resnet", 8.0, {"options": {"depth": 40}}),
        ),
        (
            ("--epsilon=7.42", "--order=conv_act_norm", "--groups=-1", "--held_out=5000"),
            (
                "cifar10",
                "resnet9",
                7.42,
                {"options": {"groups": -1, "order": "conv_act_norm"}, "held_out": 5000},
            ),
        ),
        (
            ("--epsilon=10", "--dataset=tiny_imagenet", "--norm=public_batch", "--ema_decay=0.9"),
            ("tiny_imagenet", "resnet9", 10.0, {"norm": "public_batch", "ema_decay": 0.9}),
        ),
        (
            ("--epsilon=8", "--dataset=imagenette", "--image_size=40", "--width=8"),
            ("imagenette", "resnet9", 8.0, {"image_size": 40, "options": {"width": 8}}),
        ),
        (
            ("--epsilon=8", "--augmentation_multiplicity=3", "--views=random", "--steps=7"),
            (
                "cifar10",
                "resnet9",
                8.0,
                {"augmentation_multiplicity": 3, "views": "random", "steps": 7},
            ),
        ),
    ],
)
def test_flags_reach_the_spec(spec_of, flags, expected):
    dataset, model, epsilon, fields = expected
    assert spec_of(*flags) == klause.spec(dataset, model, epsilon, **fields)


def test_batch_normalisation_is_trained_without_privacy(spec_of):
    spec = spec_of("--norm=batch", "--epsilon=inf", "--scale_norm", "--epochs=2")
    assert spec == klause.non_private_spec("cifar10", "resnet9", scale_norm=True, epochs=2.0)
    assert spec.column == f"eps={math.inf:g}" and spec.kind == "non_private"


def test_appendix_b_ends_in_its_record_and_table(main, toy_sets, tmp_path):
    empty = main("table", "--experiment=klause_appendix_b", f"--results_dir={tmp_path}")
    assert empty.code == 2
    assert "Train its cells: python -m trainers.sweep --experiment=klause_appendix_b" in empty.err
    flags = ("--norm=batch", "--epsilon=inf", "--max_examples=16", "--steps=1")
    result = main("klause_scalenorm", *flags, f"--output_dir={tmp_path}")
    assert result.code == 0, result.err
    shown = main("table", "--experiment=klause_appendix_b", f"--results_dir={tmp_path}")
    assert shown.code == 0 and "| cifar10-resnet9-batch |" in shown.out


@pytest.mark.parametrize(
    "flags, precision",
    [
        ((), "mixed_bfloat16"),
        (("--mixed_precision",), half_precision()),
        (("--nomixed_precision",), "float32"),
        (("--precision=float32",), "float32"),
    ],
)
def test_precision(main, toy_sets, monkeypatch, flags, precision):
    """The record says of the precision what was trained: in the flags and in the scale."""
    seen = []
    monkeypatch.setattr(registry, "run_cell", lambda spec, **_: seen.append(spec))
    assert main("klause_scalenorm", "--epsilon=7.42", *flags).code == 0
    assert [spec.precision for spec in seen] == [precision]
    is_half = f"precision {precision} for float32" in seen[0].reduced
    assert is_half == ("precision" in seen[0].reduced) == (precision != "float32")


@pytest.mark.parametrize("flag", ["--mixed_precision", "--nomixed_precision"])
def test_a_precision_given_twice_is_rejected(main, flag):
    result = main("klause_scalenorm", "--epsilon=7.42", "--precision=float32", flag)
    assert result.code == 2 and f"got {flag} and --precision=float32" in result.err


@pytest.mark.parametrize(
    "flags, part",
    [
        (["--norm=batch", "--epsilon=1"], "which cannot be trained privately, got --epsilon=1."),
        (["--norm=batch", "--noise_multiplier=1"], "cannot be trained privately, got none."),
        (["--norm=batch", "--epsilon=inf", "--l2_norm_clip=1"], "got --l2_norm_clip"),
        (
            ["--norm=batch", "--epsilon=inf", "--checkpoint_every=9"],
            "Expected a private training with --checkpoint_every, got --checkpoint_every=9",
        ),
        (["--epsilon=1", "--checkpoint_every=9"], "--checkpoint_every needs --run_dir"),
        (["--epsilon=1", "--plateau=private", "--learning_rate_schedule=cosine"], "plateau"),
        (["--epsilon=1", "--augmentation_multiplicity=3"], "With views="),
        (["--epsilon=1", "--groups=7"], "Expected groups of -1 (one per channel) or a power"),
        (
            ["--epsilon=1", "--plateau=test", "--held_out=9"],
            "cannot be combined with plateau='test'",
        ),
        (
            ["--epsilon=1", "--norm=layer", "--groups=16"],
            "Expected norm=group with groups, got groups=16 with norm=layer",
        ),
        (["--norm=batch", "--epsilon=inf", "--scale_norm", "--groups=16"], "Expected norm=group"),
        (
            ["--epsilon=8", "--model=wrn_16_4", "--depth=40"],
            "Expected model=wide_resnet with depth, got depth=40 with model=wrn_16_4",
        ),
        (["--epsilon=8", "--model=resnet50", "--order=conv_act_norm"], "model=resnet9 with order"),
        (
            ["--epsilon=1", "--plateau_patience=2"],
            "Expected --plateau=private or --plateau=public or --plateau=test",
        ),
        (["--epsilon=1", "--plateau=public"], "Expected plateau_dataset with plateau='public'"),
        (
            ["--epsilon=1", "--plateau=public", "--plateau_dataset=cifar10"],
            "Expected another plateau_dataset than the private dataset",
        ),
        (
            ["--epsilon=1", "--plateau=test", "--plateau_examples=9"],
            "Expected --plateau=private or --plateau=public with --plateau_examples",
        ),
        (["--epsilon=1", "--momentum=0.5"], "Expected --optimizer=sgd with --momentum, got"),
        (
            ["--epsilon=1", "--norm=group", "--pull_back=shrunk"],
            "public-batch normalisation (--norm=public_batch) with --pull_back, got "
            "--pull_back=shrunk where it has no effect. Leave it out.",
        ),
        (["--epsilon=1", "--public_dataset=cifar100"], "with --public_dataset, got"),
        (["--norm=batch", "--epsilon=inf", "--momentum=0.5"], "--optimizer=sgd with --momentum"),
    ],
)
def test_mistakes_end_in_a_line(main, flags, part):
    result = main("klause_scalenorm", *flags)
    (line,) = result.err.splitlines()
    assert result.code == 2 and part in line


@pytest.mark.parametrize(
    "flags",
    [
        ("--optimizer=sgd", "--momentum=0.5"),
        ("--norm=public_batch", "--pull_back=shrunk"),
        ("--plateau=test", "--plateau_patience=2"),
        ("--norm=none", "--scale_norm", "--groups=16"),
        ("--plateau=public", "--plateau_dataset=.", "--plateau_examples=9"),
    ],
)
def test_flags_with_an_effect_are_not_rejected(main, toy_sets, monkeypatch, flags):
    seen = []
    monkeypatch.setattr(registry, "run_cell", lambda spec, **_: seen.append(spec))
    result = main("klause_scalenorm", "--epsilon=7.42", *flags)
    assert result.code == 0 and len(seen) == 1, result.err


def test_flags_of_texts_and_of_frozen_convolutions_are_no_flags_here(main):
    for flag in ("--vocabulary=hashed", "--sequence_length=7", "--pretraining_epochs=3"):
        result = main("klause_scalenorm", "--epsilon=1", flag)
        assert result.code and "Unknown command line flag" in f"{result.code}{result.err}"


def test_preparing_without_an_archive_ends_in_a_line(main, tmp_path):
    result = main("prepare_tiny_imagenet", f"--manual_dir={tmp_path}", f"--data_dir={tmp_path}")
    assert result.code == 2 and "There is no tiny-imagenet-200.zip in manual_dir" in result.err

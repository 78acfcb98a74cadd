"""The cells of Klause et al.: what they train, what they say of it, and their tables."""

from trainers import registry
from trainers.klause import cells as klause
from trainers.report import plots


def records(make_record, spec, accuracies, top5):
    return [
        make_record(
            experiment=spec.experiment,
            cell=spec.cell,
            paper_value=spec.paper_value,
            test_accuracy=accuracy,
            test_accuracy_ema=accuracy + 1,
            test_top5=five,
            test_top5_ema=None,
            epsilon=spec.epsilon,
            epsilon_target=spec.epsilon,
            seed=seed,
        )
        for seed, (accuracy, five) in enumerate(zip(accuracies, top5, strict=True))
    ]


def test_the_best_are_drawn_where_the_table_has_them(make_record, tmp_path, drawn):
    spec = klause.spec("tiny_imagenet", "resnet9", 10.0, scale_norm=True)
    made = records(make_record, spec, (10.0, 13.0, 11.0), (31.0, 30.0, 35.0))
    for name, ours, theirs in (("klause_table1", 11.0, 19.4), ("klause_table4", 35.0, 42.8)):
        form = registry.table_form(name)
        plots.plot_experiment(made, tmp_path / "e.png", "title", form=form)
        (bar,) = drawn[-1].patches
        (paper,) = [line for line in drawn[-1].lines if line.get_label() == "the paper"]
        assert (bar.get_width(), paper.get_xdata()[0]) == (ours, theirs), name

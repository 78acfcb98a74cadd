"""The model of a finished fine-tuning, exported with its card."""

from tfdpnorm import files
from tfdpnorm.convert.exported import export, write_card
from tfdpnorm.data.synthetic import is_synthetic
from trainers.data.catalogue import check_there
from trainers.data.images import load_labelled
from trainers.runs.finetune import deployed_model, public_images
from trainers.specs.checks import check_not_private

_ROWS = 64


def check_export(spec, folder, data_dir=None):
    """Raises for settings that `export_finetuned` could not write, before anything is trained.

    Public images must not be split off from the private ones, or be these: the ranges of int8 have
    to come from images that are not private.
    """
    if spec.public_dataset == "split":
        raise ValueError(
            "Expected public_dataset to be a set of its own, or synthetic, with export_dir, got "
            "'split'. Name one, such as synthetic:fractal or cifar100."
        )
    check_not_private("public_dataset", spec.public_dataset, spec.dataset)
    files.make_folder(folder, "export_dir")
    if not is_synthetic(spec.public_dataset):
        check_there(spec.public_dataset, data_dir)


def export_finetuned(spec, result, folder, *, data_dir=None, echo=print):
    """Writes the model of a `RunResult`, from images to logits, in all formats, and its card.

    Returns a list of `tfdpnorm.convert.exported.ExportedFile`.
    """
    check_export(spec, folder, data_dir)
    of = f"{_ROWS} images of {spec.public_dataset}, which are public"
    if is_synthetic(spec.public_dataset):
        of = f"{_ROWS} synthetic images ({spec.public_dataset})"
    echo(f"Exporting to {folder}; predictions are compared on {of}")
    of_images = dict(image_size=spec.image_size, person_feature=spec.person_feature)
    private = load_labelled(spec.dataset, "train", data_dir, **of_images)
    shape = private.x.shape[1:]
    rows = public_images(spec, private.x, _ROWS, data_dir)
    model = deployed_model(spec, result.model, shape)
    exported = export(model, folder, rows, trained_by=result.model, echo=echo)
    imported = "which are assumed to be public"
    if result.model.ledger.state.has("foreign_weights"):
        imported = f"{imported}, apart from the statement's remarks on them"
    size = "{num_examples:,} examples".format(**result.record)
    if result.record["unit"] != "row":
        size = "{num_examples:,} persons with {num_rows:,} examples".format(**result.record)
    about = {
        "What it is": f"{model.name}: {result.record['pretrained']}. Takes images "
        f"{list(shape)} in [0, 1], RGB, one or more; gives one logit for each of "
        f"{private.num_classes} classes. Resizing and scaling are in the model.",
        "Data": f"Trained privately on {spec.dataset}, {size} "
        f"({result.record['scale']}). Compared, and ranged for int8, on {of}.",
        "Not covered by the guarantee": f"The imported weights, {imported}, "
        f"and the search for settings ({result.record['search'] or 'nothing is stated of it'}).",
    }
    card, _ = write_card(
        folder,
        name=model.name,
        statement=result.model.privacy_statement(),
        exported=exported,
        privacy=result.model.privacy_statement_json(),
        record=result.record,
        about=about,
    )
    for entry in exported:
        echo(
            f"Exported: {entry.path}, {entry.bytes:,} bytes, changed by {entry.relative:.1e}, "
            f"{entry.same_class:.1%} of the rows as before"
        )
    echo(f"Model card: {card}")
    return exported

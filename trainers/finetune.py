"""Private training of an imported Keras model on one's own images.

    python -m trainers.finetune --model=model.keras --dataset=cifar10 --image_size=128 --epsilon=8
    python -m trainers.finetune --model=model.keras --dataset=photos/ --trainable=last:4 \\
        --batch_norm=public_batch --public_dataset=synthetic:fractal --image_size=96 --epsilon=4 \\
        --export_dir=outputs/export
    python -m trainers.finetune --model=model.keras --dataset=photos.csv --epsilon=4 --dry_run

Trains the head on features of the frozen model, or more of it. Writes a record into --output_dir,
and with --export_dir the trained model in all formats, with a model card.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

from absl import flags

from trainers.ours import finetune_cells as cells
from trainers.specs import PrivateSpec
from trainers.specs.private import VARIATIONAL

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_string(
        "dataset",
        "cifar10",
        "Private images: a data set by name, a folder with train/<class>/*.png and "
        "test/<class>/*.png, or a .csv file with the columns image, label and split.",
    )
    flags.DEFINE_string(
        "export_dir", None, "Folder for the trained model and its card; default: none is written."
    )
    common.define_run(
        PrivateSpec,
        required=("epsilon", "model"),
        leave_out=VARIATIONAL,
        help={
            "model": "Keras model to start from: the path of a .keras or .h5 file, or its name in "
            "the folder that the environment variable TFDPNORM_MODELS_DIR names.",
            "norm": "Normalisation of the features, before the new last layer.",
        },
    )
    FLAGS["save_model"].help = "Not supported here: --export_dir writes the model."


def spec():
    settings = common.parsed(PrivateSpec)
    if "model" not in settings:
        raise ValueError("--model is missing. Pass the path of a Keras model.")
    return cells.spec(FLAGS.dataset, **settings)


def main():
    to_train = spec()
    if FLAGS.save_model is not None:
        raise ValueError(
            f"--save_model={FLAGS.save_model} is not supported here: --export_dir writes the model "
            "from images to logits. Use it instead."
        )
    if FLAGS.export_dir is not None and not FLAGS.dry_run:
        common.check_datasets(to_train)  # at once, and not after TensorFlow is loaded
        from trainers.runs.export import check_export

        check_export(to_train, FLAGS.export_dir, FLAGS.data_dir)
    result = common.train(to_train)
    if FLAGS.export_dir is not None and result is not None:
        from trainers.runs.export import export_finetuned

        export_finetuned(to_train, result, FLAGS.export_dir, data_dir=FLAGS.data_dir)


if __name__ == "__main__":
    common.run(__name__, model="model.keras")

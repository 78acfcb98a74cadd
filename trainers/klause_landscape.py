"""Klause et al. (2022), Section 3.1, Figure 2, Appendix A: what ScaleNorm does to loss and scale.

    python -m trainers.klause_landscape --with_scale_norm=a.keras --without_scale_norm=b.keras

Takes two networks that `python -m trainers.klause_scalenorm --save_model=...` has trained, and
measures the Hessian of their loss (trace, largest and smallest eigenvalue, negative ones) and the
activations of their residual blocks. Records, table and plots go to --output_dir. Figure 3, the
training curve, comes from `python -m trainers.table --experiment=klause_table1 --curves`.
Nothing here is private: the numbers depend on the training examples.
"""

from trainers import common, spec_flags  # before everything that loads TensorFlow  # isort: skip

import pathlib

from absl import flags

from trainers.klause.landscape_settings import LandscapeSettings
from trainers.records.fields import LANDSCAPE_FIELDS
from trainers.records.store import read_records, write_record
from trainers.specs.options import defaults_of

FLAGS = flags.FLAGS
_WITH = "with ScaleNorm"


def define_flags():
    flags.DEFINE_string("with_scale_norm", None, "Keras file of the network with ScaleNorm.")
    flags.DEFINE_string("without_scale_norm", None, "Keras file of the network without.")
    flags.DEFINE_string("dataset", "cifar10", "Training set of the models.")
    spec_flags.define(LandscapeSettings, own=defaults_of(LandscapeSettings))
    common.define("data_dir")
    flags.DEFINE_string("output_dir", "outputs/landscape", "Folder of records, table and plots.")


def main():
    folder = common.make_output_dir()
    paths = {_WITH: FLAGS.with_scale_norm, "without": FLAGS.without_scale_norm}
    for path in paths.values():
        if path is not None and not pathlib.Path(path).is_file():
            raise ValueError(f"Expected a Keras file, got {path!r}.")
    settings = LandscapeSettings(**spec_flags.parsed(LandscapeSettings))
    for name, path in paths.items():
        if path is not None:
            write_record(folder, _measured(name, path, settings), fields=LANDSCAPE_FIELDS)
    _show(folder, list(paths))


def _measured(name, path, settings):
    from tensorflow import keras

    import tfdpnorm.models  # noqa: F401  so that saved networks load
    from tfdpnorm.data import match_images
    from trainers.data.sources import load_examples
    from trainers.klause.landscape import check_network, measure_landscape

    model = keras.models.load_model(path, compile=False)
    examples = load_examples(FLAGS.dataset, "train", FLAGS.data_dir)
    check_network(path, model, scale_norm=name == _WITH, examples=examples, dataset=FLAGS.dataset)
    return measure_landscape(
        name,
        model,
        match_images(examples.x, model.input_shape[1:]),
        examples.y,
        settings,
        source={"model_file": pathlib.Path(path).name, "dataset": FLAGS.dataset},
    )


def _show(folder, names):
    """Writes table and plots of the newest record of each network."""
    from trainers.klause import landscape_report as report

    in_time = read_records(folder, fields=LANDSCAPE_FIELDS, newest_last=True)
    found = {record["cell"]: record for record in in_time}
    records = [found[name] for name in names if name in found]
    if len(records) < len(names):
        missing = [name for name in names if name not in found]
        print(f"No table yet: {folder} has no record of the network {missing[0]!r}.")
        return
    text = report.landscape_table(*records)
    (folder / "landscape.md").write_text(text + "\n", "utf-8")
    spectra = report.plot_spectra(records, folder / "spectra.png")
    activations = report.plot_activations(records, folder / "activations.png")
    print(f"{text}\n\nTable: {folder / 'landscape.md'}; plots: {spectra}, {activations}")


if __name__ == "__main__":
    common.run(__name__)

"""Ermis & Cemgil (2017), Figure 3: sigma against epsilon, and what the quoted sigmas really give.

    python -m trainers.ermis_accountants
    python -m trainers.ermis_accountants --sampling_rate=0.05 --updates=2000 --noise_multiplier=6

Compares the paper's two accountants, in several readings, with RDP and PLD, for neighbours by
add_or_remove_one and by replace_one. Record, tables and plot go to --output_dir. With
--noise_multiplier, it prints what the four accountants say of such updates at delta 1e-5, and which
of them hold, and writes nothing. Trains nothing.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

from absl import flags

from trainers.ermis.published import DELTA
from trainers.records.fields import ACCOUNTING_FIELDS
from trainers.records.store import write_record

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_list("epsilons", None, "Of the curves (default: 13 values from 0.1 to 10).")
    flags.DEFINE_bool("compute", True, "Compute; else show the newest record of the folder again.")
    flags.DEFINE_float("noise_multiplier", None, "Compare for this noise over the clipping norm.")
    flags.DEFINE_float("sampling_rate", 0.01, "With --noise_multiplier.")
    flags.DEFINE_integer("updates", 20000, "With --noise_multiplier.")
    flags.DEFINE_string("output_dir", "outputs/accountants", "Folder of record, tables and plot.")


def main():
    from trainers.ermis import accounting
    from trainers.ermis.accounting_report import accounting_text, comparison_text, plot_accounting

    if FLAGS.noise_multiplier is not None:
        settings = (FLAGS.sampling_rate, FLAGS.noise_multiplier, FLAGS.updates)
        print(comparison_text(*settings, DELTA))
        return
    folder = common.make_output_dir()
    if FLAGS.compute:
        epsilons = tuple(map(float, FLAGS.epsilons or accounting.EPSILONS))
        write_record(folder, accounting.accounting_record(epsilons), ACCOUNTING_FIELDS)
    common.show_records(
        "ermis_figure3", ACCOUNTING_FIELDS, accounting_text, plot_accounting, newest=True
    )


if __name__ == "__main__":
    common.run(__name__)

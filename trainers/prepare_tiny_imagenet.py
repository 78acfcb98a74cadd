"""Prepares Tiny ImageNet for TensorFlow Datasets, from its official archive.

    python -m trainers.prepare_tiny_imagenet --data_dir=~/tensorflow_datasets
    python -m trainers.prepare_tiny_imagenet --manual_dir=~/Downloads

Without --manual_dir it downloads the archive. An archive with another checksum than the official
one is only taken from --manual_dir, with a warning.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import os
import pathlib

from absl import flags

FLAGS = flags.FLAGS


def define_flags():
    common.define("data_dir")
    flags.DEFINE_string("manual_dir", None, "Folder with tiny-imagenet-200.zip.")


def main():
    from trainers.data import tiny_imagenet

    root = FLAGS.data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    root = pathlib.Path(root).expanduser()
    manual = FLAGS.manual_dir and pathlib.Path(FLAGS.manual_dir).expanduser()
    info = tiny_imagenet.prepare(root, manual_dir=manual)
    which = "the official archive" if info.is_official else "another archive than the official one"
    print(
        f"{tiny_imagenet.NAME} in {root}: {info.train:,} training and {info.validation:,} "
        f"validation images, from {which} (MD5 {info.md5})."
    )


if __name__ == "__main__":
    common.run(__name__)

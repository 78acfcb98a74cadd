"""Tiny ImageNet as a set of TensorFlow Datasets, from its official archive.

TFDS has no builder of its own for it. Importing this module imports TFDS.
"""

import collections
import hashlib
import pathlib
import shutil
import tempfile
import warnings
import zipfile
import zlib
from typing import NamedTuple

import tensorflow_datasets as tfds

from trainers.data.errors import DatasetCorruptError, DatasetNotFoundError

NAME = "tiny_imagenet"
ARCHIVE = "tiny-imagenet-200.zip"
URL = f"http://cs231n.stanford.edu/{ARCHIVE}"
OFFICIAL_MD5 = "90528d7ca1a48142e341f4ef8d21d0de"
_ROOT = "tiny-imagenet-200"
_CLASSES = 200
_SIDE = 64
_BLOCK = 1 << 20
# What zipfile raises for damage, encryption and unknown kinds of compression.
_UNREADABLE = (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)


class ArchiveInfo(NamedTuple):
    """Which archive it is: its checksum, and its numbers of training and validation images."""

    md5: str
    train: int
    validation: int

    @property
    def is_official(self):
        """Whether it is the archive of the authors, byte by byte."""
        return self.md5 == OFFICIAL_MD5


class TinyImagenet(tfds.core.GeneratorBasedBuilder):
    """200 classes of ImageNet as images of 64 x 64: 100,000 to train on, 10,000 for validation.

    The label is the line of the class in the archive's wnids.txt. The archive's test images have no
    labels and are left out. `prepare` downloads the archive; here it is in the manual folder.
    """

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = f"Put {ARCHIVE} (from {URL}) there, or use `prepare`."

    def _info(self):
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(_SIDE, _SIDE, 3), encoding_format="jpeg"),
                    "label": tfds.features.ClassLabel(num_classes=_CLASSES),
                }
            ),
            supervised_keys=("image", "label"),
            homepage="https://www.kaggle.com/c/tiny-imagenet",
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager):
        path = pathlib.Path(dl_manager.manual_dir) / ARCHIVE
        info = check_archive(path)
        self.info.metadata.update({"archive": info._asdict(), "official": info.is_official})
        return {split: self._generate_examples(path, split) for split in ("train", "validation")}

    def _generate_examples(self, path, split):
        with zipfile.ZipFile(path) as archive:
            for name, label in _labelled_images(archive, split):
                with archive.open(name) as image:
                    yield name, {"image": image, "label": label}


def prepare(data_dir, *, manual_dir=None, fetch=None):
    """Prepares the set in a TFDS folder; returns which archive it was made from, an `ArchiveInfo`.

    `manual_dir` is the folder with the archive; None to download it, by `fetch(url, path)`, by
    default by HTTP. Rejects an archive that is not there, has not the official layout, or was
    downloaded and has another checksum than the official one; and a folder that holds the set
    already, of another archive.
    """
    with tempfile.TemporaryDirectory(prefix="tiny_imagenet_") as scratch:
        folder = pathlib.Path(scratch if manual_dir is None else manual_dir)
        path = folder / ARCHIVE
        if manual_dir is None:
            try:
                (fetch or _fetch)(URL, path)
            except OSError as error:
                raise DatasetNotFoundError(
                    f"Downloading {URL} failed: {error}. Download it by hand and pass the folder "
                    "that it is in as manual_dir."
                ) from None
        elif not path.is_file():
            raise DatasetNotFoundError(
                f"There is no {ARCHIVE} in manual_dir {folder}. Download it from {URL} and put it "
                "there."
            )
        info = check_archive(path)
        if manual_dir is None and not info.is_official:
            raise DatasetCorruptError(
                f"Expected the archive of {URL} to have the MD5 {OFFICIAL_MD5}, got {info.md5}. "
                "Download it again; to use another archive on purpose, pass manual_dir."
            )
        if not info.is_official:
            warnings.warn(
                f"{path} is not the official archive: MD5 {info.md5} for {OFFICIAL_MD5}, "
                f"{info.train:,} training and {info.validation:,} validation images for 100,000 "
                "and 10,000. It is prepared as it is; records of trainings on it say so.",
                stacklevel=2,
            )
        builder = TinyImagenet(data_dir=str(data_dir))
        builder.download_and_prepare(
            download_config=tfds.download.DownloadConfig(manual_dir=str(folder))
        )
        # TFDS leaves a set that was there as it is, whatever archive it is given.
        found = (builder.info.metadata or {}).get("archive")
        if found != info._asdict():
            which = f"MD5 {found['md5']}" if found else "one that is not recorded"
            raise DatasetCorruptError(
                f"The set in {builder.data_dir} was prepared from another archive ({which}), not "
                f"from this one (MD5 {info.md5}). Remove that folder, or give another data_dir."
            )
    return info


def check_archive(path):
    """Returns which archive this is, an `ArchiveInfo`, if it has the official layout."""
    try:
        with zipfile.ZipFile(path) as archive:
            counts = [len(_labelled_images(archive, split)) for split in ("train", "validation")]
            damaged = archive.testzip()
    except DatasetCorruptError:
        raise
    except _UNREADABLE as error:
        raise DatasetCorruptError(
            f"Expected {path} to be a zip file, but {error}. Download it again from {URL}."
        ) from None
    if damaged is not None:
        raise _corrupt(path, f"{damaged} is damaged")
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return ArchiveInfo(digest.hexdigest(), *counts)


def _labelled_images(archive, split):
    """Returns pairs (name in the archive, label) of a split, in the order of the open archive."""
    wnids = _lines(archive, "wnids.txt")
    if len(set(wnids)) != _CLASSES or len(wnids) != _CLASSES:
        raise _corrupt(archive.filename, f"wnids.txt names {len(set(wnids))} classes, not 200")
    labels = {wnid: label for label, wnid in enumerate(wnids)}
    names = [pathlib.PurePosixPath(n) for n in archive.namelist() if n.endswith(".JPEG")]
    if split == "train":
        place = pathlib.PurePosixPath(_ROOT) / "train"
        found = [(n, n.parts[2]) for n in names if n.is_relative_to(place) and len(n.parts) == 5]
    else:
        rows = [line.split("\t") for line in _lines(archive, "val/val_annotations.txt")]
        of_image = {row[0]: row[1] for row in rows if len(row) >= 2}
        place = pathlib.PurePosixPath(_ROOT) / "val" / "images"
        found = [(n, of_image.get(n.name)) for n in names if n.parent == place]
    unknown = collections.Counter(wnid for _, wnid in found if wnid not in labels)
    if unknown or not found:
        what = f"images of class {next(iter(unknown))}" if unknown else "no images"
        raise _corrupt(archive.filename, f"its {split} part has {what}")
    return [(str(name), labels[wnid]) for name, wnid in found]


def _lines(archive, name):
    try:
        text = archive.read(f"{_ROOT}/{name}").decode("utf-8", "replace")
    except KeyError:
        raise _corrupt(archive.filename, f"{_ROOT}/{name} is not in it") from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def _corrupt(path, reason):
    return DatasetCorruptError(
        f"Expected {path} to have the layout of the official {ARCHIVE}, but {reason}. Download it "
        f"again from {URL}."
    )


def _fetch(url, path):
    import urllib.request

    with urllib.request.urlopen(url, timeout=30) as source, open(path, "wb") as target:
        shutil.copyfileobj(source, target, _BLOCK)

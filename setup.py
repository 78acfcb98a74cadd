"""Packaging of tfdpnorm.

The ranges below are what the library works with; the exact versions that the
Makefile installs are in requirements/*.lock, made from this file by ``make lock``.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent

# Two stacks. Up to Python 3.11: TensorFlow 2.15 with its own Keras 2.15, and tensorflow-privacy,
# which cannot be imported with TensorFlow 2.16 or later. From Python 3.12 on, for which there is no
# TensorFlow 2.15: TensorFlow 2.21 with Keras 3, of which the library uses private parts.
FIRST_STACK = 'python_version < "3.12"'
SECOND_STACK = 'python_version >= "3.12"'

TENSORFLOWS = {FIRST_STACK: ">=2.15.1,<2.16", SECOND_STACK: ">=2.21,<2.22"}

STACKS = {
    FIRST_STACK: [
        f"tensorflow{TENSORFLOWS[FIRST_STACK]}",
        "tensorflow-privacy>=0.9.0,<0.10",
        "dp-accounting>=0.4.3,<0.5",
        # Later releases of these two need a protobuf newer than TensorFlow 2.15 accepts.
        "tensorflow-metadata>=1.13,<1.16",
        "protobuf>=3.20.3,<5",
        "absl-py>=1.0,<2",
        "numpy>=1.23.5,<2",
    ],
    SECOND_STACK: [
        f"tensorflow{TENSORFLOWS[SECOND_STACK]}",
        "keras>=3.15,<3.16",
        "dp-accounting>=0.6,<0.7",
        "absl-py>=2,<3",
        "numpy>=2,<3",
    ],
}

INSTALL_REQUIRES = [
    *(f"{wanted}; {stack}" for stack, requirements in STACKS.items() for wanted in requirements),
    "tensorflow-datasets>=4.9.4,<5",
    "keras-tuner>=1.4.6,<2",
    "h5py>=3.8,<4",
    # tensorflow-datasets needs it to download, and does not ask for it.
    "importlib_resources>=5",
    "scikit-learn>=1.3,<2",
    "scipy>=1.9,<2",
    "matplotlib>=3.7,<4",
]

TEST_REQUIRES = [
    "pytest>=7.4",
    "pytest-xdist>=3.3",
    "hypothesis>=6.80",
    "packaging>=22",
    "tensorboard>=2.15",  # of which TensorFlow 2.15 brings its own
]

DEV_REQUIRES = TEST_REQUIRES + [
    "ruff>=0.5",
    # To install the checkout without build isolation.
    "setuptools>=70.1",
    "wheel>=0.40",
]


def read_version():
    text = (HERE / "tfdpnorm" / "_version.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"$', text, flags=re.MULTILINE)
    if match is None:
        raise RuntimeError("tfdpnorm/_version.py does not define __version__")
    return match.group(1)


def read_long_description():
    readme = HERE / "README.md"
    return readme.read_text(encoding="utf-8") if readme.is_file() else ""


setup(
    name="tfdpnorm",
    version=read_version(),
    description="Differentially private training of Keras networks with normalisation layers",
    long_description=read_long_description(),
    long_description_content_type="text/markdown",
    author="tfdpnorm authors",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    # Not `trainers`, which is run from a checkout: other packages have that name too.
    packages=find_packages(include=["tfdpnorm", "tfdpnorm.*"]),
    install_requires=INSTALL_REQUIRES,
    extras_require={
        "gpu": [f"tensorflow[and-cuda]{r}; {stack}" for stack, r in TENSORFLOWS.items()],
        "test": TEST_REQUIRES,
        "dev": DEV_REQUIRES,
    },
    entry_points={
        "console_scripts": ["tfdpnorm-epsilon = tfdpnorm.privacy.command:main"],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)

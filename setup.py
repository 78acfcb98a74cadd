"""The requirements of tfdpnorm; everything else is declared in pyproject.toml.

The ranges below are what the library works with. The exact versions that the Makefile installs are
in requirements/*.lock, made from this file by ``make lock``.
"""

import pathlib
import re

from setuptools import setup

README = (pathlib.Path(__file__).parent / "README.md").read_text("utf-8")
LINK_WITHIN = r"!?\[([^]]*)\]\((?!https:|#)[^)]*\)"  # which leads nowhere on PyPI

# Every Python with every TensorFlow that has wheels for it. Not Keras: TensorFlow requires one, and
# pip would replace a Keras that is too old without a word; `tfdpnorm.keras_compat` says so instead.
TENSORFLOW = "2.15.1,<2.22"

INSTALL_REQUIRES = [
    f"tensorflow>={TENSORFLOW}",
    "dp-accounting>=0.4.3,<0.7",
    "h5py>=3.8,<4",
    "numpy>=1.23.5,<3",
    "scipy>=1.9,<2",
]

# One of the engines. It cannot be imported with TensorFlow 2.16 or later, and there is no
# TensorFlow 2.15 for Python 3.12. It brings dp-accounting 0.4.3.
TENSORFLOW_PRIVACY_REQUIRES = [
    'tensorflow>=2.15.1,<2.16; python_version < "3.12"',
    'tensorflow-privacy>=0.9.0,<0.10; python_version < "3.12"',
]

TUNER_REQUIRES = ["keras-tuner>=1.4.6,<2"]

HUB_REQUIRES = ["keras-hub>=0.18,<1"]  # needs Keras 3

TRAINERS_REQUIRES = [
    *TUNER_REQUIRES,
    "absl-py>=1.0,<3",
    # tensorflow-datasets needs it to download, and does not ask for it.
    "importlib_resources>=5",
    "matplotlib>=3.7,<4",
    "scikit-learn>=1.3,<2",
    "tensorflow-datasets>=4.9.4,<5",
]

TEST_REQUIRES = [
    *TUNER_REQUIRES,
    "pytest>=7.4",
    "pytest-xdist>=3.3",
    "hypothesis>=6.80",
    "packaging>=22",
    "tensorboard>=2.15",  # of which TensorFlow 2.15 brings its own
    "readme-renderer[md]>=43",  # renders README.md as PyPI does
]

DOCS_REQUIRES = [
    "sphinx>=7.2,<9",  # 7.4 needs a packaging newer than tensorflow-privacy accepts
    "furo>=2023.9",
    "myst-parser>=2",
    "myst-nb>=1",
    "jupytext>=1.16",  # reads the programs in examples as pages
    "sphinx-copybutton>=0.5",
]

# Another accountant of attacks, for a test. tensorflow-privacy rejects the dp-accounting it needs.
RISKCAL_REQUIRES = ["riskcal>=1.4,<2"]

DEV_REQUIRES = [
    *TRAINERS_REQUIRES,
    *TEST_REQUIRES,
    *DOCS_REQUIRES,
    "ruff>=0.5",
    # To install the checkout without build isolation.
    "setuptools>=77",
    "wheel>=0.40",
]

setup(
    long_description=re.sub(LINK_WITHIN, r"\1", README),
    long_description_content_type="text/markdown",
    install_requires=INSTALL_REQUIRES,
    extras_require={
        "tensorflow-privacy": TENSORFLOW_PRIVACY_REQUIRES,
        "tuner": TUNER_REQUIRES,
        "hub": HUB_REQUIRES,
        "riskcal": RISKCAL_REQUIRES,
        "trainers": TRAINERS_REQUIRES,
        "gpu": [f"tensorflow[and-cuda]>={TENSORFLOW}"],
        "test": TEST_REQUIRES,
        "docs": DOCS_REQUIRES,
        "dev": DEV_REQUIRES,
    },
)

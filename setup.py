"""The requirements of tfdpnorm; everything else is declared in pyproject.toml.

They are computed, because two stacks share them. The ranges below are what the library works with;
the exact versions that the Makefile installs are in requirements/*.lock, made from this file by
``make lock``.
"""

from setuptools import setup

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
    "readme-renderer[md]>=43",  # renders README.md as PyPI does
]

DOCS_REQUIRES = [
    "sphinx>=7.2,<9",  # 7.4 needs a packaging newer than tensorflow-privacy accepts
    "furo>=2023.9",
    "myst-parser>=2",
    "myst-nb>=1",
]

DEV_REQUIRES = [
    *TEST_REQUIRES,
    *DOCS_REQUIRES,
    "ruff>=0.5",
    # To install the checkout without build isolation.
    "setuptools>=77",
    "wheel>=0.40",
]

setup(
    install_requires=INSTALL_REQUIRES,
    extras_require={
        "gpu": [f"tensorflow[and-cuda]{r}; {stack}" for stack, r in TENSORFLOWS.items()],
        "test": TEST_REQUIRES,
        "docs": DOCS_REQUIRES,
        "dev": DEV_REQUIRES,
    },
)

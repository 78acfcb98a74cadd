"""tfdpnorm: deep networks with normalisation layers, trained under differential privacy.

The names below are imported when they are first used, so that `tfdpnorm-epsilon` and
`import tfdpnorm.privacy` answer without loading TensorFlow. Saved models that hold layers of this
library can be loaded all the same.
"""

from typing import TYPE_CHECKING

from tfdpnorm import lazy
from tfdpnorm._version import __version__
from tfdpnorm.keras_compat.importing import choose_keras, register_when_keras_is_imported

choose_keras()

_NAMES = {
    "Clipping": "tfdpnorm.gradients",
    "FrozenBatchNormalization": "tfdpnorm.layers",
    "PrivacyBudget": "tfdpnorm.privacy",
    "PrivacyError": "tfdpnorm.errors",
    "PrivacyWarning": "tfdpnorm.errors",
    "PrivateModel": "tfdpnorm.training",
    "PrivateValidation": "tfdpnorm.training",
    "PublicBatch": "tfdpnorm.training",
    "PublicBatchNormalization": "tfdpnorm.layers",
    "PublicCentering": "tfdpnorm.layers",
    "RunDir": "tfdpnorm.training",
    "ScaleNorm": "tfdpnorm.layers",
    "Views": "tfdpnorm.training",
    "WeightAverage": "tfdpnorm.training",
    "convert_model": "tfdpnorm.convert",
    "fold_public_statistics": "tfdpnorm.convert",
    "make_plan": "tfdpnorm.privacy",
    "make_private": "tfdpnorm.training.make_private",
    "private_least_squares": "tfdpnorm.least_squares",
    "suggest": "tfdpnorm.training",
    "suggested_optimizer": "tfdpnorm.training",
}
_PACKAGES = (
    "audit",
    "convert",
    "data",
    "gradients",
    "independence",
    "layers",
    "least_squares",
    "models",
    "noise",
    "privacy",
    "training",
    "tuning",
)

__all__ = ["__version__", *_NAMES, *_PACKAGES]

if TYPE_CHECKING:
    from tfdpnorm import audit as audit
    from tfdpnorm import convert as convert
    from tfdpnorm import data as data
    from tfdpnorm import gradients as gradients
    from tfdpnorm import independence as independence
    from tfdpnorm import layers as layers
    from tfdpnorm import least_squares as least_squares
    from tfdpnorm import models as models
    from tfdpnorm import noise as noise
    from tfdpnorm import privacy as privacy
    from tfdpnorm import training as training
    from tfdpnorm import tuning as tuning
    from tfdpnorm.convert import convert_model as convert_model
    from tfdpnorm.convert import fold_public_statistics as fold_public_statistics
    from tfdpnorm.errors import PrivacyError as PrivacyError
    from tfdpnorm.errors import PrivacyWarning as PrivacyWarning
    from tfdpnorm.gradients import Clipping as Clipping
    from tfdpnorm.layers import FrozenBatchNormalization as FrozenBatchNormalization
    from tfdpnorm.layers import PublicBatchNormalization as PublicBatchNormalization
    from tfdpnorm.layers import PublicCentering as PublicCentering
    from tfdpnorm.layers import ScaleNorm as ScaleNorm
    from tfdpnorm.least_squares import private_least_squares as private_least_squares
    from tfdpnorm.privacy import PrivacyBudget as PrivacyBudget
    from tfdpnorm.privacy import make_plan as make_plan
    from tfdpnorm.training import PrivateModel as PrivateModel
    from tfdpnorm.training import PrivateValidation as PrivateValidation
    from tfdpnorm.training import PublicBatch as PublicBatch
    from tfdpnorm.training import RunDir as RunDir
    from tfdpnorm.training import Views as Views
    from tfdpnorm.training import WeightAverage as WeightAverage
    from tfdpnorm.training import suggest as suggest
    from tfdpnorm.training import suggested_optimizer as suggested_optimizer
    from tfdpnorm.training.make_private import make_private as make_private
else:
    __getattr__, __dir__ = lazy.attributes(__name__, _NAMES, _PACKAGES)


register_when_keras_is_imported()

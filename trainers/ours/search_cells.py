"""The benefit of a search under differential privacy: our own comparison, at epsilon 3.

One run at the full budget, with the settings that we found by looking, and with those that nobody
has looked for (the defaults of the flags); and a private search of 8 expected trials for the same
budget, over ranges that one would choose without knowing the data.
"""

from trainers.davody import cells as davody
from trainers.specs import PrivateSpec, search_spec
from trainers.specs.options import defaults_of

_EPSILON = 3.0
_OVER = "learning_rate=0.03:0.1:0.3:1:3,l2_norm_clip=0.1:0.3:1:3"
_SCORED = {"digits": 200, "mnist": 5_000}


def worth_cells():
    """The specs of the comparison."""
    specs = []
    for dataset, scored in _SCORED.items():
        name = f"{dataset}-layer"
        own = davody.spec(dataset, "layer", _EPSILON).replaced(
            experiment="private_search", network=name, paper_value=None
        )
        untuned = {n: defaults_of(PrivateSpec)[n] for n in ("learning_rate", "l2_norm_clip")}
        specs += [
            own,
            own.replaced(network=f"{name}-defaults", search="not searched", **untuned),
            search_spec(
                own,
                network=f"{name}-search",
                over=_OVER,
                score_examples=scored,
                recorded_trials="all",
            ),
        ]
    return specs


EXPERIMENTS = {"private_search": worth_cells}

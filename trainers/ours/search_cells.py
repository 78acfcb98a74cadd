"""The benefit of a search under differential privacy: our own comparison, at epsilon 3.

One run at the full budget, with the settings that we found by looking, and with those that nobody
has looked for (the defaults of the flags); and a private search of 8 expected trials for the same
budget, over ranges that one would choose without knowing the data.
"""

import dataclasses

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
        own = dataclasses.replace(
            davody.spec(dataset, "layer", _EPSILON), experiment="private_search", paper_value=None
        )
        untuned = {n: defaults_of(PrivateSpec)[n] for n in ("learning_rate", "l2_norm_clip")}
        named = dict(network=f"{dataset}-layer", column=own.column)
        specs += [
            dataclasses.replace(own, **named),
            dataclasses.replace(
                own,
                **{**named, "network": f"{dataset}-layer-defaults", "search": "not searched"},
                **untuned,
            ),
            search_spec(
                own,
                **{**named, "network": f"{dataset}-layer-search"},
                over=_OVER,
                score_examples=scored,
                recorded_trials="all",
            ),
        ]
    return specs


EXPERIMENTS = {"private_search": worth_cells}

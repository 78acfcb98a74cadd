"""A model card: what a model is, what it was trained on, and what its privacy is worth.

After Mitchell et al. (2019), "Model cards for model reporting", with the privacy statement first.
"""

import json
import math

from tfdpnorm import files

MARKDOWN, JSON = "MODEL_CARD.md", "model_card.json"
_SHOWN = (
    "test_accuracy",
    "num_examples",
    "epsilon",
    "delta",
    "accountant",
    "noise_multiplier",
    "l2_norm_clip",
    "expected_batch_size",
    "updates",
    "statistics",
    "seed",
    "commit",
)


def write_card(folder, *, name, statement, exported, record=None, about=None):
    """Writes a model card as Markdown and as JSON, and returns the two paths.

    Args:
        folder: Folder of the model's files.
        name: Name of the model.
        statement: The privacy statement of its training, `private.privacy_statement()`, as it is.
        exported: List of `tfdpnorm.convert.ExportedFile`.
        record: Record of the run, a dict; None for none.
        about: Dict from headings to what is said there: data, intended use, licence, preprocessing.

    Raises:
        OSError: if they cannot be written.
    """
    folder = files.make_folder(folder, "export_dir")
    card = {
        "name": name,
        "privacy_statement": str(statement),
        "guarantee_holds": None if record is None else record["guarantee_holds"],
        "about": dict(about or {}),
        "files": [
            {**entry._asdict(), "path": entry.path.name, "format": entry.format}
            for entry in exported
        ],
        "record": record,
    }
    text = json.dumps(_plain(card), indent=1) + "\n"
    return (
        files.write_whole(folder / MARKDOWN, _markdown(card)),
        files.write_whole(folder / JSON, text),
    )


def _markdown(card):
    lines = [f"# {card['name']}", "", "## Privacy", "", "```", card["privacy_statement"], "```"]
    if card["guarantee_holds"] is False:
        lines += ["", "**No guarantee holds for this model.**"]
    for heading, text in card["about"].items():
        lines += ["", f"## {heading}", "", str(text)]
    if card["record"] is not None:
        lines += ["", "## Training and results", "", "| | |", "|---|---|"]
        lines += [f"| {name} | {card['record'].get(name)} |" for name in _SHOWN]
    lines += ["", "## Files", "", "Beside the trained model, on public rows:", ""]
    lines += [
        "| file | format | bytes | largest change | root mean square | same class | sha256 |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f['path']} | {f['format']} | {f['bytes']:,} | {f['largest']:.1e} | "
        f"{f['relative']:.1e} | {f['same_class']:.1%} | {f['sha256'][:16]} |"
        for f in card["files"]
    ]
    return "\n".join(lines) + "\n"


def _plain(value):
    """JSON has no infinity: it is written as a word."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

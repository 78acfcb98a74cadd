"""The fields of records: flat JSON objects, one for each run or audit.

A record says its kind of run, and its cell's network (row of the table) and column.
"""

_FIRST, _LAST = "experiment kind cell", "seed seconds device command flags versions commit"
# Of a training run, whatever its kind; None where a field is not for the kind.
FIELDS = tuple(
    """
    experiment kind cell network column paper_value test_accuracy test_accuracy_ema test_top5
    test_top5_ema epsilon epsilon_target epsilon_rdp epsilon_pld epsilon_claimed epsilon_validation
    epsilon_of_a_trial epsilon_of_trials_composed accountant delta guarantee_holds
    no_guarantee_because not_covered weights_from_elsewhere statement unit most_per_person
    epsilon_of_person num_examples num_rows expected_batch_size
    sampling_rate noise_multiplier l2_norm_clip updates weight_noise_stddev statistics pretrained
    engine noise_generator insecure_seed resumes seed scale search trials curve seconds
    examples_per_second device command flags versions commit
    """.split()
)
# What a record says of privacy unless its kind of run knows better.
NO_GUARANTEE = {
    "epsilon": float("inf"),
    "epsilon_rdp": float("inf"),
    "epsilon_pld": float("inf"),
    "guarantee_holds": False,
    "no_guarantee_because": ["trained without differential privacy"],
}
# Of an audit of epsilon.
AUDIT_FIELDS = tuple(
    f"""
    {_FIRST}
    network column check claimed_epsilon audited_epsilon confidence violation delta guarantee_holds
    no_guarantee_because model statistics engine noise_multiplier l2_norm_clip expected_batch_size
    sensitivity samples details
    {_LAST}
    """.split()
)
# Of measured sensitivities, many in a record.
SENSITIVITY_FIELDS = tuple(f"{_FIRST} rows {_LAST}".split())
# Of training on several rows of synthetic persons.
PERSONS_FIELDS = tuple(
    """
    experiment kind cell dataset persons way test_accuracy epsilon_target epsilon_of_person
    epsilon_of_row delta guarantee_holds num_persons num_rows noise_multiplier updates seed seconds
    device command flags versions commit
    """.split()
)
# Of trainings with suggested settings alone.
DEFAULTS_FIELDS = tuple(
    """
    experiment kind cell dataset norm optimizer epsilon test_accuracy epsilon_target epsilon_spent
    delta guarantee_holds num_examples expected_batch_size updates noise_multiplier learning_rate
    views seed seconds device command flags versions commit
    """.split()
)
# Of the loss landscape of a trained model.
LANDSCAPE_FIELDS = tuple(
    f"""
    {_FIRST}
    parameters rows largest_eigenvalue smallest_eigenvalue power_iteration trace
    negative_ritz_values negative_share condition_number ritz_values ritz_weights asymmetry
    activations products
    {_LAST}
    """.split()
)
# Comparisons of accountants; nothing is trained.
ACCOUNTING_FIELDS = tuple(f"{_FIRST} readings nearest quoted curves {_LAST}".split())


def fields_of(thing, names):
    """Returns the fields of a record that are attributes of a thing, by their names in a string."""
    return {name: getattr(thing, name) for name in names.split()}


def paper_text(record):
    """Returns the paper's figure for a record's cell, or what it says instead; "" for nothing."""
    value = record["paper_value"]
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.2f}"

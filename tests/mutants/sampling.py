"""Faults in the lots: who is in them, how often, and what they are drawn from."""

from tests.mutants.mutant import Mutant, tests_in

_SAMPLING = "tfdpnorm/data/_sampling.py"
_POISSON = "tfdpnorm/data/poisson.py"

MUTANTS = (
    Mutant(
        "lots-of-fixed-size",
        _SAMPLING,
        (
            (
                "    mean = sampling_rate * num_examples\n",
                "    mean = sampling_rate * num_examples\n"
                "    rng = np.random.default_rng(bits(4))\n"
                "    chosen = rng.choice(num_examples, round(mean), replace=False)\n"
                "    return np.sort(chosen).astype(np.int64)\n",
            ),
        ),
        "The sampling is not the one that the accountant assumes: epsilon does not hold.",
        tests_in("tests/data/test_poisson_sampling.py", "test_lot_sizes_are_binomial"),
    ),
    Mutant(
        "sampling-rate-tenth-more",
        _SAMPLING,
        (("np.log1p(-sampling_rate)", "np.log1p(-min(1.1 * sampling_rate, 0.99))"),),
        "Examples are in more lots than the plan counts.",
        tests_in(
            "tests/data/test_poisson_sampling.py",
            "test_gaps_at_the_edges_of_the_uniform",
            "test_lot_sizes_are_binomial",
        ),
    ),
    Mutant(
        "first-example-never-drawn",
        _SAMPLING,
        (("last, parts = -1, []", "last, parts = 0, []"),),
        "Example 0 is in no lot, and every other one is moved by a place.",
        tests_in("tests/data/test_poisson_sampling.py", "test_gaps_at_the_edges_of_the_uniform"),
    ),
    Mutant(
        "gap-never-zero",
        _SAMPLING,
        (("gaps = np.minimum(gaps, num_examples)", "gaps = np.clip(gaps, 1, num_examples)"),),
        "Neighbours are never in a lot together: examples do not enter independently.",
        tests_in("tests/data/test_poisson_sampling.py", "test_gaps_at_the_edges_of_the_uniform"),
    ),
    Mutant(
        "lots-from-a-seed",
        _SAMPLING,
        (
            (
                "np.frombuffer(os.urandom(8 * count), dtype=np.uint64)",
                "np.random.default_rng(0).integers(2**64, size=count, dtype=np.uint64)",
            ),
        ),
        "Everybody knows who is in which lot, and all lots are the same.",
        tests_in(
            "tests/data/test_poisson_batches.py", "test_secret_lots_never_repeat_whatever_is_seeded"
        ),
    ),
    Mutant(
        "lots-from-numpy-global",
        _SAMPLING,
        (
            (
                "np.frombuffer(os.urandom(8 * count), dtype=np.uint64)",
                "np.random.randint(0, 2**64, size=count, dtype=np.uint64)",
            ),
        ),
        "Whoever knows the global seed knows the lots.",
        tests_in(
            "tests/data/test_poisson_batches.py", "test_secret_lots_never_repeat_whatever_is_seeded"
        ),
    ),
    Mutant(
        "keyed-lots-repeat-in-blocks",
        _SAMPLING,
        (('struct.pack("<qq", update, next(blocks))', 'struct.pack("<qq", update, 0)'),),
        "In a lot of more than one block of gaps the draws repeat.",
        tests_in(
            "tests/data/test_poisson_sampling.py", "test_keyed_lots_come_from_a_stream_of_their_own"
        ),
    ),
    Mutant(
        "keyed-lots-without-update",
        _SAMPLING,
        (('struct.pack("<qq", update, next', 'struct.pack("<qq", 0, next'),),
        "All lots of a run that is kept are the same.",
        tests_in(
            "tests/data/test_poisson_batches.py", "test_keyed_lots_depend_on_key_and_update_alone"
        ),
    ),
    Mutant(
        "lots-of-the-noise-key",
        _SAMPLING,
        (('shake_256(b"lots" + key', 'shake_256(b"noise" + key'),),
        "Lots and noise come from one stream of a key.",
        tests_in(
            "tests/data/test_poisson_sampling.py", "test_keyed_lots_come_from_a_stream_of_their_own"
        ),
    ),
    Mutant(
        "same-lots-each-epoch",
        _POISSON,
        (
            (
                ".map(gather).prefetch(2)",
                ".map(gather).take(max(1, round(1 / sampling_rate))).cache().repeat()",
            ),
        ),
        "From the second epoch on sampling hides nothing.",
        tests_in(
            "tests/data/test_poisson_batches.py", "test_secret_lots_never_repeat_whatever_is_seeded"
        ),
    ),
    Mutant(
        "keyed-lots-wrap-around",
        _POISSON,
        (
            (
                "_sampling.keyed_bits(secret_key, int(update))",
                "_sampling.keyed_bits(secret_key, int(update) % 4)",
            ),
        ),
        "From the fifth update on lots repeat.",
        tests_in(
            "tests/data/test_poisson_batches.py", "test_keyed_lots_depend_on_key_and_update_alone"
        ),
    ),
    Mutant(
        "lot-cut-to-a-physical-batch",
        _POISSON,
        (
            (
                "rows = _sampling.poisson_rows(num_examples, sampling_rate, bits)",
                "rows = _sampling.poisson_rows(num_examples, sampling_rate, bits)[:rows_per_batch]",
            ),
        ),
        "The last examples are drawn less often, by who else is in the lot.",
        tests_in(
            "tests/data/test_poisson_batches.py", "test_a_lot_above_the_physical_size_is_kept_whole"
        ),
    ),
    Mutant(
        "padding-counts",
        _POISSON,
        (("mask=tf.cast(rows < num_examples", "mask=tf.cast(rows <= num_examples"),),
        "Rows of zeros count as examples; their number tells the size of the lot.",
        tests_in(
            "tests/data/test_poisson_batches.py",
            "test_an_empty_lot_is_one_physical_batch_of_padding",
        ),
    ),
    Mutant(
        "other-n-in-data-accepted",
        "tfdpnorm/training/checks/settings.py",
        (
            (
                'for name in ("num_examples", "expected_batch_size"):',
                'for name in ("expected_batch_size",):',
            ),
        ),
        "The data have fewer examples than planned: each is in more lots than q says.",
        tests_in(
            "tests/training/checks/test_bad_input.py", "TestData::test_of_another_size_than_planned"
        ),
    ),
    Mutant(
        "lots-begin-anew-after-resuming",
        "tfdpnorm/training/fit_data.py",
        (("first_update=int(noise.update_count.numpy())", "first_update=0"),),
        "With a seed, a second fit or a resumed run draws the first lots once more.",
        tests_in("tests/training/resume/test_all_state.py", "test_every_optimizer"),
    ),
    Mutant(
        "public-rows-among-private-accepted",
        "tfdpnorm/data/public.py",
        (("overlap = arrays.shared_rows(publics, privates)", "overlap = []"),),
        "Rows that are private, too, are used without any protection.",
        ("tests/data/test_public_batches.py",),
    ),
)

"""What rounding can add to the sensitivity of a sum over a lot; docs/exact_noise.md derives it."""

ROWS_IN_A_BLOCK = (128, 64, 32)
BLOCKS_ADDED_AT_ONCE = 8

LONGER = 4  # how much longer than C a row's vector may be where `rows_of_longer` are added up

_UNIT = 2.0**-24  # unit roundoff of float32
_MOST = 0.02  # of C; above it, smaller blocks are taken


def rounded_sums(rows):
    """How sums over the rows of a lot are computed, and what their rounding can do.

    Args:
        rows: R: no lot has more examples, up to a probability that delta includes, and no physical
            batch has more rows. The examples may be in any of these.

    Returns:
        Pair of the number of rows that are added up in float32 in one go, None for none; and of the
        most, relative to C, that rounding adds to the distance of the computed sums of two lots
        that differ in one example.
    """
    for block in ROWS_IN_A_BLOCK:
        more = 2 * _error(rows, _additions(rows, block))
        if more <= _MOST:
            return block, more
    return None, 2 * _error(rows, 0)


def rows_of_longer(rows, block):
    """How many longer vectors are added up in one go, so that rounding does no more than is paid.

    A function of the sum may make vectors shorter, those of rows with norms of up to `LONGER` C.
    Rounding of their sum is larger by as much, and has to be made up for by fewer additions.

    Args:
        rows: As in `rounded_sums`.
        block: As `rounded_sums` returns it.

    Returns:
        An int, at most `block`, or None for none: they are to be added up in float64.
    """
    finer = block or 0
    while finer:
        if LONGER * (_additions(rows, finer) + 4) <= _additions(rows, block) + 4:
            return finer
        finer //= 2
    return None


def _additions(rows, block):
    """The most additions in float32 that one row's number goes through.

    Zeros are added without rounding: which of the rows are padding makes no difference.
    """
    blocks, levels = -(-rows // block), 0
    while blocks > 1:
        blocks, levels = -(-blocks // BLOCKS_ADDED_AT_ONCE), levels + 1
    return min(rows - 1, block - 1 + (BLOCKS_ADDED_AT_ONCE - 1) * levels)


def _error(rows, additions):
    """The L2 norm of the error of a sum of vectors of norm 1.

    Each goes through `additions` roundings in float32, two more where float64 is rounded to it, one
    where the sum is multiplied by its share of the budget, and through what float64 itself loses,
    which is less than one more.
    """
    roundings = (additions + 4) * _UNIT
    return rows * roundings / (1 - roundings)

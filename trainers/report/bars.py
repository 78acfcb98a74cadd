"""Bars of accuracies, for one or two budgets: a line would join what has nothing between it."""

from trainers.report.figure import wrapped

MOST_BUDGETS = 2
_BAR = 0.26  # inches for a bar, and for the space between two networks


def height(series):
    """The height in inches of a panel of bars."""
    lines = [1 + wrapped(one.label).count("\n") for one in series]
    bars = [max(len(one.ours), n) for one, n in zip(series, lines, strict=True)]
    return 0.9 + sum(_BAR * (count + 0.5) for count in bars)


def draw(axes, series):
    """Draws horizontal bars of accuracies, a group for each `Series`, in an empty panel."""
    budgets = sorted({point[0] for one in series for point in one.ours})
    width = 0.8 / max(len(budgets), 1)
    places = {
        (place, point[0]): place + (which - (len(one.ours) - 1) / 2) * width
        for place, one in enumerate(series)
        for which, point in enumerate(one.ours)
    }
    paper = {
        places[place, epsilon]: value
        for place, one in enumerate(series)
        for epsilon, value in one.paper
        if (place, epsilon) in places
    }
    largest = max([p[3] for one in series for p in one.ours] + [1.0, *paper.values()])
    for which, epsilon in enumerate(budgets):
        points = [
            (places[place, epsilon], point[1:])
            for place, one in enumerate(series)
            for point in one.ours
            if point[0] == epsilon
        ]
        middles = [middle for _, (middle, _, _) in points]
        axes.barh(
            [place for place, _ in points],
            middles,
            height=0.9 * width,
            xerr=[
                [middle - low for _, (middle, low, _) in points],
                [high - middle for _, (middle, _, high) in points],
            ],
            error_kw=dict(capsize=2, linewidth=1),
            color=f"C{which}",
            alpha=0.6,
            label=f"epsilon {epsilon:g}",
        )
        for place, (middle, _, _) in points:  # at the foot: a cross of the paper has none of ours
            look = dict(textcoords="offset points", va="center", fontsize=8)
            axes.annotate(f"{middle:.1f}", (0, place), xytext=(3, 0), **look)
    if paper:
        axes.plot(list(paper.values()), list(paper), "x", color="black", label="the paper")
    axes.set_xlim(0, 1.05 * largest)
    axes.set_yticks(range(len(series)), [wrapped(one.label) for one in series])
    axes.invert_yaxis()
    at = f" at epsilon {budgets[0]:g}" if len(budgets) == 1 else ""
    axes.set_xlabel(f"test accuracy (%){at}")
    if len(budgets) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize="small")
    axes.grid(axis="x", alpha=0.3)

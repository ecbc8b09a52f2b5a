"""Draws the bar chart of a benchmark report with matplotlib."""

from pathlib import Path

from benchmarks._report import Ratio, Report


def require() -> None:
    """Exits early, before any measurement, if matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise SystemExit(f"--plot needs matplotlib: pip install matplotlib ({error})") from None
    mpl.use("Agg")


def write_plot(report: Report, path: Path, base: str, *, mean: bool = True) -> None:
    """Draws the speed of each column relative to column `base`, one group of bars for each row.

    With `mean`, the last group is the geometric mean. Combinations that were not measured have no
    bar.
    """
    require()
    from matplotlib import pyplot as plt

    columns = [column for column in report.columns if column != base]
    ratios = [Ratio(column, base) for column in columns]
    names = [row.name for row in report.rows] + ["geomean"] * mean
    height = 0.8 / max(1, len(columns))
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.2 * len(names) * (1 + len(columns))))
    for index, (column, ratio) in enumerate(zip(columns, ratios, strict=True)):
        speeds = [ratio.of(row.samples) or 0.0 for row in report.rows]
        speeds += [report.geomean_ratio(ratio) or 0.0] * mean
        places = [place + index * height for place in range(len(names))]
        bars = axes.barh(places, speeds, height=height, label=column)
        labels = [f"{speed:.2f}" if speed else "" for speed in speeds]
        axes.bar_label(bars, labels=labels, padding=2, fontsize=7)
    axes.axvline(1.0, color="black", linewidth=0.8)
    middle = height * (len(columns) - 1) / 2
    axes.set_yticks([place + middle for place in range(len(names))], names)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlabel(f"times as fast as {base}")
    facts = ", ".join(f"{key} {value}" for key, value in report.facts.items() if key != "isa")
    axes.set_title(f"{report.title}\n{facts}", fontsize=9)
    axes.legend(loc="best", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)

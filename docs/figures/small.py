"""Draw docs/figures/small.png and door-32k.png, and print the tables of docs/results.md, from results/small."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from calql.domains.registry import get_task
from calql.experiments.analysis.evaluations import Result, read_results
from calql.experiments.names import method_name
from calql.experiments.paper.numbers import Number, PaperTable, locomotion_table, main_table
from calql.results import statistics, style

HERE = Path(__file__).parent
TABLES = ("table-locomotion", "fig-data", "table-scores")  # the later ones count where a cell is in two
TWO = ("cal-ql", "cql")


def main() -> None:
    tables = (read_results(HERE / f"../../results/small/{name}.csv.gz") for name in TABLES)
    found = {(each.task, each.method): each for table in tables for each in table if each.finished}
    tasks = sorted(task for task, method in found if method == "cal-ql" and (task, "cql") in found)
    draw(found, tasks, "small.png")
    print_two(found, tasks)
    print_all(found, [task for task in tasks if sum(task == other for other, _ in found) > 2])
    print_switch(found, tasks)
    longer = {(each.task, each.method): each for each in read_results(HERE / "../../results/small/door-32k.csv.gz")}
    draw(longer, ["door-binary"], "door-32k.png")
    print_course(longer, "door-binary")


def draw(found: dict[tuple[str, str], Result], tasks: Sequence[str], name: str) -> None:
    """Every seed and their mean, from the switch on."""
    with style.styled():
        columns = min(len(tasks), 3)
        rows = -(-len(tasks) // columns)
        figure = Figure(figsize=(max(9.5 * columns / 3, 6.0), 2.4 * rows + 0.4), constrained_layout=True)
        panels = figure.subplots(rows, columns, sharey=True, squeeze=False)
        for panel, task in zip(panels.flat, tasks, strict=False):
            for place, method in enumerate(TWO):
                steps, scores = curve(found[task, method], "score")
                panel.plot(steps.T / 1000, scores.T, color=style.colour(place), alpha=0.25, linewidth=0.8)
                panel.plot(steps.mean(0) / 1000, scores.mean(0), color=style.colour(place), label=method_name(method))
            panel.set_title(task)
            panel.set_ylim(-0.03, 1.03)
        for panel in panels.flat[len(tasks) :]:
            panel.set_visible(False)
        for row in panels:
            row[0].set_ylabel("score")
        for panel in panels.flat[max(len(tasks) - columns, 0) : len(tasks)]:
            panel.set_xlabel("thousand steps after the switch")
        panels.flat[0].legend(loc="best")
        figure.savefig(HERE / name, dpi=120)


def curve(result: Result, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps and values [seed, evaluation], from the switch on."""
    rows = [[row for row in result.run.of_seed(seed) if row["switch"] or row["env_steps"]] for seed in result.run.seeds]
    length = min(map(len, rows))
    steps, values = (np.array([[row[n] for row in each[:length]] for each in rows]) for n in ("env_steps", name))
    return steps.astype(np.float64), values.astype(np.float64)


def paper_of(task: str) -> PaperTable:
    return main_table() if task in main_table().tasks else locomotion_table()


def print_two(found: dict[tuple[str, str], Result], tasks: Sequence[str]) -> None:
    print("| task | updates + steps | | Cal-QL | regret | CQL | regret |\n|---|---|---|---|---|---|---|")
    for task in tasks:
        first = found[task, "cal-ql"]
        ours = " | ".join(f"{said(found[task, m])} | {means(found[task, m], 'regret'):.2f}" for m in TWO)
        print(f"| {task} | {size(first.run.offline_updates)} + {size(first.run.online_steps)} | ours | {ours} |")
        if (task, "cal-ql") in paper_of(task).cells:
            theirs = " | ".join(f"{published(task, m)} | {paper_of(task).number((task, m), 'regret'):.2f}" for m in TWO)
            print(f"| | {whole(task)} | paper | {theirs} |")


def print_all(found: dict[tuple[str, str], Result], tasks: Sequence[str]) -> None:
    methods = [method for method in main_table().methods if any((task, method) in found for task in tasks)]
    print(f"\n| task | | {' | '.join(map(method_name, methods))} |\n|---|---|{'---|' * len(methods)}")
    for task in tasks:
        ours = [said(found[task, m], interval=False) if (task, m) in found else "" for m in methods]
        print(f"| {task} | ours | {' | '.join(ours)} |")
        print(f"| | paper | {' | '.join(published(task, m) for m in methods)} |")


def print_switch(found: dict[tuple[str, str], Result], tasks: Sequence[str]) -> None:
    heads = ("task", "", "switch", "worst after", "end", "average Q", "return-to-go", "bound rate")
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for task in tasks:
        for method in TWO:
            result = found[task, method]
            scores = curve(result, "score")[1].mean(0)
            rows = [row for row in result.run.rows if row["switch"]]
            bound = np.mean([value for row in rows for name, value in row.items() if name.startswith("bound_rate/")])
            q, earned = (np.mean([row[name] for row in rows]) for name in ("average_q", "average_return_to_go"))
            numbers = [*(f"{x:.2f}" for x in (scores[0], scores[1:].min(), scores[-1])), f"{q:.0f}", f"{earned:.0f}"]
            numbers.append(f"{bound:.2f}")
            print(f"| {task if method == 'cal-ql' else ''} | {method_name(method)} | {' | '.join(numbers)} |")


def print_course(found: dict[tuple[str, str], Result], task: str) -> None:
    """Mean and every seed's score at the switch and at each evaluation after it."""
    steps = curve(found[task, "cal-ql"], "score")[0].mean(0)
    print(f"\n| steps | {' | '.join(size(round(step, -3)) for step in steps)} |\n|{'---|' * (len(steps) + 1)}")
    for method in TWO:
        scores = curve(found[task, method], "score")[1].T
        texts = [f"**{each.mean():.2f}** {' '.join(f'{score:.2f}' for score in each)}" for each in scores]
        print(f"| {method_name(method)} | {' | '.join(texts)} |")


def means(result: Result, number: Number) -> float:
    values = result.values(number)
    return float("nan") if values is None else float(values.mean())


def said(result: Result, *, interval: bool = True) -> str:
    before, after = result.values("before"), result.values("after")
    assert after is not None
    text = f"{'' if before is None else f'{100 * before.mean():.0f} '}→ {100 * after.mean():.0f}"
    if not interval:
        return text
    estimate = statistics.mean(after[:, None])
    assert estimate.low is not None
    assert estimate.high is not None
    return f"{text} [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"


def published(task: str, method: str) -> str:
    before, after = (paper_of(task).number((task, method), number) for number in ("before", "after"))
    return "" if after is None else f"{'' if before is None else f'{100 * before:.0f} '}→ {100 * after:.0f}"


def whole(task: str) -> str:
    protocol = get_task(task).protocol
    return f"{size(protocol.offline_updates)} + {size(protocol.online_steps)}"


def size(count: Any) -> str:
    return f"{count / 1e6:g}M" if count >= 1e6 else f"{count / 1e3:g}K"


if __name__ == "__main__":
    main()

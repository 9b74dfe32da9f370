"""Draws architecture.svg: how a batch travels through the folders."""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

plt.rcParams["font.family"] = "sans-serif"
plt.rcParams["svg.fonttype"] = "none"
INK, FILL, ACCENT = "#1f2a44", "#eef1f8", "#cfd8ef"

figure, axes = plt.subplots(figsize=(11, 4.6))
axes.set(xlim=(0, 110), ylim=(0, 46))
axes.axis("off")


def box(x: float, y: float, w: float, h: float, title: str, lines: str, fill: str = FILL) -> None:
    axes.add_patch(FancyBboxPatch((x, y), w, h, boxstyle="round,pad=0.3,rounding_size=1", fc=fill, ec=INK, lw=1.2))
    axes.text(x + w / 2, y + h - 2.6, title, ha="center", va="center", fontsize=11, weight="bold", color=INK)
    axes.text(x + w / 2, y + (h - 4) / 2, lines, ha="center", va="center", fontsize=8.5, color=INK, linespacing=1.4)


def arrow(x1: float, y1: float, x2: float, y2: float, label: str = "", dy: float = 1.3, bend: float = 0.0) -> None:
    style = f"arc3,rad={bend}"
    look = {"arrowstyle": "-|>", "mutation_scale": 13, "color": INK, "lw": 1.3, "connectionstyle": style}
    axes.add_patch(FancyArrowPatch((x1, y1), (x2, y2), **look))
    if label:
        axes.text((x1 + x2) / 2, (y1 + y2) / 2 + dy, label, ha="center", fontsize=8, color=INK, style="italic")


box(1, 26, 16, 13, "data/", "formats, checks\nflat columns\nterminal | truncated")
box(23, 26, 16, 13, "methods/\nreference/", "\nvalue of the\nbehaviour\nper logged step")
box(46, 0.8, 41, 43.5, "engine/", "", ACCENT)
box(48, 29, 15, 9, "mixing", "rows by index,\non the device")
box(69, 29, 16, 9, "methods/", "update: critic,\npolicy, duals", "#ffffff")
box(48, 3, 14, 10, "replay", "a ring per seed")
box(70, 3, 15, 10, "rollout", "whole episodes,\npolicy frozen")
box(93, 26, 16, 13, "results/", "metrics, tables,\nplots, report")
box(93, 2, 16, 11, "domains/", "simulator, score,\nreward rule")
arrow(17.5, 32.5, 22.5, 32.5)
arrow(39.5, 32.5, 47.4, 33.5, "columns", 1.0)
arrow(63.5, 33.5, 68.5, 33.5, "batch", 0.8)
arrow(87.6, 33, 92.5, 33, "rows", 0.8)
arrow(77, 28.4, 77, 13.6, "")
axes.text(78, 17.2, "policy", fontsize=8, style="italic", color=INK)
arrow(69.4, 7.5, 62.6, 7.5, "episode", 1.0)
arrow(55.5, 13.6, 55.5, 28.4)
axes.text(56.4, 17.2, "online rows", fontsize=8, style="italic", color=INK)
arrow(92.5, 7.5, 85.6, 7.5)
arrow(31, 25.5, 47.4, 8, "", 0, 0.25)
axes.text(19, 11, "values each episode\nwhen it has ended", fontsize=8, style="italic", color=INK)
axes.text(66.8, 20, "one program\nfor all seeds", ha="center", fontsize=8, color=INK)
figure.savefig(Path(__file__).with_name("architecture.svg"), bbox_inches="tight", metadata={"Date": None})

"""The fairness report: what an auditor reads, as tables, JSON, a data frame, a plot or a page."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput, check
from lemmata_core.claims import Table
from lemmata_core.plain import plain

from riemann_fair.groups import Groups, read_groups
from riemann_fair.laplacian import read_affinity
from riemann_fair.metrics import balance_of_counts, gaps, group_counts, normalized_cut

if TYPE_CHECKING:
    from lemmata_core.page import Page


@dataclass(frozen=True)
class AttributeReport:
    """One protected attribute across the clusters.

    Attributes
    ----------
    name : str
    groups : tuple of str
    counts : ndarray, shape (clusters, groups)
    proportions : ndarray of float64, shape (clusters, groups)
        Share of each group in each cluster.
    population : ndarray of float64, shape (groups,)
        Share of each group among all clustered nodes with a known label.
    balance : ndarray of float64, shape (clusters,)
    gap : ndarray of float64, shape (clusters,)
        Largest difference of a share from the population's.
    population_balance : float
        The ceiling: the balance of a cluster with the population's proportions.
    disparate_impact : ndarray of float64, shape (groups,)
        The group's smallest share in a cluster over its share in the population; 1 is parity, below 0.8 the
        four-fifths rule of thumb asks for a reason.
    """

    name: str
    groups: tuple[str, ...]
    counts: np.ndarray
    proportions: np.ndarray
    population: np.ndarray
    balance: np.ndarray
    gap: np.ndarray
    population_balance: float
    disparate_impact: np.ndarray


@dataclass(frozen=True)
class FairnessReport:
    """How the protected groups are spread over the clusters, and what the clustering cuts.

    Attributes
    ----------
    clusters : tuple of int
    sizes : ndarray of int64, shape (clusters,)
    attributes : tuple of AttributeReport
    average_balance, min_balance : float
        Over clusters, of the worst attribute in each.
    population_balance : float
        The ceiling of both, of the worst attribute.
    max_gap : float
    ncut : float
        Normalised cut; NaN without an affinity.
    n_noise : int
    n_components : int
        Connected components of the graph; 0 without an affinity.
    warnings : tuple of str
    """

    clusters: tuple[int, ...]
    sizes: np.ndarray
    attributes: tuple[AttributeReport, ...]
    average_balance: float
    min_balance: float
    population_balance: float
    max_gap: float
    ncut: float
    n_noise: int
    n_components: int
    warnings: tuple[str, ...] = field(default=())

    @property
    def counts(self) -> np.ndarray:
        """Counts of the first attribute, (clusters, groups)."""
        return self.attributes[0].counts

    @property
    def proportions(self) -> np.ndarray:
        """Proportions of the first attribute, (clusters, groups)."""
        return self.attributes[0].proportions

    @property
    def balance(self) -> np.ndarray:
        """Balance of each cluster, the smallest of any attribute."""
        return np.asarray(np.min([a.balance for a in self.attributes], axis=0))

    def scalars(self) -> dict[str, float]:
        """The figures that stand at the top of a report."""
        return {
            "average balance": self.average_balance,
            "smallest balance": self.min_balance,
            "balance of the population (the ceiling)": self.population_balance,
            "largest proportion gap": self.max_gap,
            "normalised cut": self.ncut,
        }

    def table(self, attribute: int = 0) -> Table:
        """Clusters by groups: sizes, counts, proportions, balance and gap, with the population as the last row."""
        a = self.attributes[attribute]
        columns = ["cluster", "size", *a.groups, *(f"{g} share" for g in a.groups), "balance", "largest gap"]
        rows: list[list[object]] = [
            [c, int(self.sizes[i]), *_numbers(a.counts[i]), *_numbers(a.proportions[i]), float(a.balance[i]),
             float(a.gap[i])]
            for i, c in enumerate(self.clusters)
        ]  # fmt: skip
        total = a.counts.sum(axis=0)
        rows.append(["population", int(self.sizes.sum()), *_numbers(total), *_numbers(a.population),
                     a.population_balance, 0.0])  # fmt: skip
        return Table(a.name, columns, rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings."""
        made: dict[str, Any] = plain(self)
        return made

    def to_json(self, indent: int | None = 2) -> str:
        """The report as one JSON document; NaN as the string "nan"."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_frame(self) -> Any:
        """A long table (cluster, attribute, group, count, proportion, population); needs pandas (extra ``frame``)."""
        import pandas as pd

        rows = [
            (c, a.name, g, a.counts[i, s], a.proportions[i, s], a.population[s], a.balance[i])
            for a in self.attributes
            for i, c in enumerate(self.clusters)
            for s, g in enumerate(a.groups)
        ]
        names = ["cluster", "attribute", "group", "count", "proportion", "population", "balance"]
        return pd.DataFrame(rows, columns=names)

    def _repr_html_(self) -> str:
        parts = [_html_table(self.table(i)) for i in range(len(self.attributes))]
        lines = "".join(f"<li>{name}: {value:.4g}</li>" for name, value in self.scalars().items())
        return f"<ul>{lines}</ul>" + "".join(parts)

    def plot(self, attribute: int = 0) -> Any:
        """Stacked bars of the proportions of each cluster against the population's; needs matplotlib (extra ``plot``).

        Returns
        -------
        matplotlib.figure.Figure
        """
        from matplotlib.figure import Figure

        a = self.attributes[attribute]
        figure = Figure(figsize=(5.3, 3.2), layout="constrained")
        axes = figure.add_subplot()
        names = [str(c) for c in self.clusters]
        below = np.zeros(len(names))
        edge = 0.0
        shown = list(range(len(a.groups)))
        for s in shown:
            axes.bar(names, a.proportions[:, s], bottom=below, width=0.7, label=a.groups[s], color=f"C{s % 10}",
                     alpha=1.0 if s < 10 else 0.6)  # fmt: skip
            below = below + a.proportions[:, s]
            edge += a.population[s]
            if s < len(shown) - 1:
                axes.axhline(edge, color="black", linewidth=0.8, linestyle="--")
        axes.set_xlabel("cluster (dashed: the population)")
        axes.set_ylabel("share")
        axes.set_ylim(0, 1)
        if len(shown) <= 8:
            axes.legend(fontsize="small", loc="upper right")
        return figure

    def page(self, title: str = "Fairness report", *, note: str = "") -> Page:
        """A self-contained page with the figures, tables and plots; write it with its ``write(path)``.

        Without matplotlib (extra ``plot``) it has the tables alone, and says so.

        Parameters
        ----------
        title : str
        note : str
            Shown under the figures: how the labels were collected, what the groups are.

        Returns
        -------
        lemmata_core.page.Page
        """
        from lemmata_core.page import Page, plot_style

        drawn = find_spec("matplotlib") is not None
        made = Page(title, subtitle=f"{int(self.sizes.sum())} nodes in {len(self.clusters)} clusters")
        made.facts({name: float(value) for name, value in self.scalars().items()})
        made.text(
            "Balance is the smallest ratio of two groups' numbers in a cluster. A cluster with the population's "
            "proportions has the population's balance: read every balance against that ceiling."
        )
        if note:
            made.text(note, kind="note")
        for warning in self.warnings:
            made.text(warning, kind="note")
        if not drawn:
            made.text("The tables' plots are missing: they need matplotlib (riemann-fair[plot]).", kind="note")
        for i, a in enumerate(self.attributes):
            part = made.section(a.name)
            if drawn:
                with plot_style():
                    figure = self.plot(i)
                part.figure(figure, title=f"Shares of {a.name} in each cluster", description=_spoken(a, self.clusters))
            part.table(self.table(i))
            part.table(
                Table(
                    "Groups",
                    ["group", "share of population", "smallest share in a cluster / share of population"],
                    [[g, float(a.population[s]), float(a.disparate_impact[s])] for s, g in enumerate(a.groups)],
                )
            )
        return made

    def to_html(self, title: str = "Fairness report", *, note: str = "") -> str:
        """The page as a string."""
        return self.page(title, note=note).html()


def _numbers(row: np.ndarray) -> list[object]:
    return [int(v) if float(v).is_integer() and row.dtype.kind in "iu" else float(v) for v in row]


def _html_table(table: Table) -> str:
    from html import escape

    def cell(value: object) -> str:
        return escape(f"{value:.4g}" if isinstance(value, float) else str(value))

    head = "".join(f"<th>{escape(str(c))}</th>" for c in table.columns)
    body = "".join("<tr>" + "".join(f"<td>{cell(v)}</td>" for v in row) + "</tr>" for row in table.rows)
    return f"<table><caption>{escape(table.title)}</caption><tr>{head}</tr>{body}</table>"


def _spoken(a: AttributeReport, clusters: tuple[int, ...]) -> str:
    worst = int(np.argmax(a.gap))
    return f"Largest gap {a.gap[worst]:.3f} in cluster {clusters[worst]}; smallest balance {a.balance.min():.3f}."


def fairness_report(affinity: Any, labels: Any, groups: Any, *, combine: str = "concat") -> FairnessReport:
    """Report how protected groups are spread over clusters.

    Parameters
    ----------
    affinity : ndarray, scipy.sparse matrix or None
        For the normalised cut; None leaves it out.
    labels : array-like of int, shape (n,)
        -1 is noise.
    groups : array-like
        Protected attributes; missing labels (None, NaN, -1) do not count.
    combine : {"concat", "intersect"}
        Report each attribute, or their crossing.

    Returns
    -------
    FairnessReport

    Raises
    ------
    InvalidInput
        Lengths that do not agree, no cluster, an attribute that is known of no clustered node.
    """
    given = check.array(labels, "labels", ndim=1, dtype=np.int64)
    table = groups if isinstance(groups, Groups) else read_groups(groups, combine=combine, missing="ignore")
    clusters, counts, table = group_counts(given, table)
    unknown = next((name for name, c in zip(table.attributes, counts) if c.sum() == 0), None)
    if unknown is not None:
        raise InvalidInput.argument("groups", expected=f"a known {unknown} in some cluster", got="none")
    attributes = tuple(_attribute(name, names, c) for name, names, c in zip(table.attributes, table.labels, counts))
    balances = np.min([a.balance for a in attributes], axis=0)
    notes = [f"Merged into 'other' because they are small: {', '.join(table.merged)}."] if table.merged else []
    sizes = np.array([(given == c).sum() for c in clusters])
    for a in attributes:
        small = [g for s, g in enumerate(a.groups) if a.counts[:, s].sum() < len(clusters)]
        if small:
            notes.append(
                f"{a.name}: {', '.join(small)} have fewer members than there are clusters; balance 0 is arithmetic."
            )
    ncut, components = float("nan"), 0
    if affinity is not None:
        from scipy.sparse.csgraph import connected_components

        checked = read_affinity(affinity)
        ncut = normalized_cut(checked, given)
        components = int(connected_components(checked.W, directed=False, return_labels=False))
        if components >= len(clusters) > 1:
            notes.append(f"The graph has {components} connected components: clusters are unions of components.")
    return FairnessReport(
        clusters=tuple(int(c) for c in clusters),
        sizes=sizes,
        attributes=attributes,
        average_balance=float(balances.mean()),
        min_balance=float(balances.min()),
        population_balance=min(a.population_balance for a in attributes),
        max_gap=max(float(a.gap.max()) for a in attributes),
        ncut=ncut,
        n_noise=int((given == -1).sum()),
        n_components=components,
        warnings=tuple(notes),
    )


def _attribute(name: str, names: tuple[str, ...], counts: np.ndarray) -> AttributeReport:
    present = counts.sum(axis=0) > 0
    counts, names = counts[:, present], tuple(g for g, p in zip(names, present) if p)
    size = counts.sum(axis=1, keepdims=True)
    shares = counts / np.where(size > 0, size, 1)
    population = counts.sum(axis=0) / counts.sum()
    return AttributeReport(
        name=name,
        groups=names,
        counts=counts,
        proportions=shares,
        population=population,
        balance=balance_of_counts(counts),
        gap=np.abs(gaps(counts)).max(axis=1),
        population_balance=float(population.min() / population.max()),
        disparate_impact=shares.min(axis=0) / population,
    )

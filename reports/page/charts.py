"""The charts of the page, as plain Plotly figures (dicts): data and layout, colours of text left to the page.

Plotly reads a small HTML in labels, so that every name of the corpus is escaped here.
"""

import html
from typing import Any

from reports.summary import Pair, Rate, Report, shortened
from scoring.taxonomy import ATTRIBUTES, LEVELS

Figure = dict[str, Any]

LEVEL_COLOURS = {1: "#a50f15", 2: "#ef6548", 3: "#fdbb84", 4: "#74a9cf", 0: "#969696"}
"""Severe is dark and warm, benign is blue, none is grey; told apart in print and by colour-blind readers."""

_MAX_LABEL = 40
_GRID = "rgba(128,128,128,0.25)"


def charts(report: Report) -> dict[str, Figure]:
    """Charts by the id of their place in the page; a chart without data is left out."""
    shown = [*report.highest, *reversed(report.lowest)]
    figures = {}
    if shown:
        figures["chart-rates"] = _rates(shown)
        figures["chart-levels"] = _levels(report, shown)
    if report.cooccurrence:
        figures["chart-pairs"] = _pairs(report)
    return figures


def _rates(shown: list[Rate]) -> Figure:
    rates = [rate.privacy_rate or 0.0 for rate in shown]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": rates,
        "y": list(range(len(shown))),
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [(rate.rate_high or 0.0) - x for rate, x in zip(shown, rates, strict=True)],
            "arrayminus": [x - (rate.rate_low or 0.0) for rate, x in zip(shown, rates, strict=True)],
            "color": "#969696",
        },
        "marker": {"color": LEVEL_COLOURS[2], "size": 9},
        "text": [
            f"{_label(rate.group)}: {rate.num_private:,} of {rate.num_scored - rate.num_unknown:,}" for rate in shown
        ],
        "hovertemplate": "%{text} (%{x:.1%})<extra></extra>",
    }
    layout = _layout(shown, "privacy rate with 95 % interval")
    layout["xaxis"] |= {"tickformat": ".0%", "range": [-0.02, 1.02]}
    return {"data": [trace], "layout": layout}


def _levels(report: Report, shown: list[Rate]) -> Figure:
    nums = {row.group: row.nums for row in report.levels_by_group}
    traces = []
    for place, level in enumerate((1, 2, 3, 4, 0)):
        counts = [nums.get(rate.group, (0, 0, 0, 0, 0)) for rate in shown]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": f"{level} {LEVELS[level]}",
                "x": [count[place] / max(sum(count), 1) for count in counts],
                "y": list(range(len(shown))),
                "text": [f"{_label(rate.group)}: {count[place]:,}" for rate, count in zip(shown, counts, strict=True)],
                "textposition": "none",
                "hovertemplate": "%{text} (%{x:.1%})",
                "marker": {"color": LEVEL_COLOURS[level]},
            }
        )
    layout = _layout(shown, "share of the scored images")
    layout["xaxis"] |= {"tickformat": ".0%", "range": [0, 1]}
    layout |= {"barmode": "stack", "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "traceorder": "normal"}}
    layout["margin"]["t"] = 60
    layout["height"] += 60
    return {"data": traces, "layout": layout}


def _pairs(report: Report) -> Figure:
    """Rows: images that show this; columns: share of them that show that. Empty where it was not assessed."""
    pairs = {(p.attribute, p.other): p for p in report.cooccurrence if p.attribute != p.other and p.share is not None}
    present = {pair.attribute for pair in report.cooccurrence}
    rows = [a for a in ATTRIBUTES if a.key in present]
    columns = [a for a in ATTRIBUTES if a.key in present or a.key in report.assessed]
    trace = {
        "type": "heatmap",
        "x": [column.title for column in columns],
        "y": [row.title for row in rows],
        "z": [[pair.share if (pair := pairs.get((r.key, c.key))) else None for c in columns] for r in rows],
        "text": [[_pair_text(pairs.get((r.key, c.key)), r.title, c.title) for c in columns] for r in rows],
        "zmin": 0,
        "zmax": 1,
        "colorscale": "Viridis",
        "hoverongaps": False,
        "colorbar": {"tickformat": ".0%", "thickness": 12},
        "hovertemplate": "%{text}<extra></extra>",
    }
    layout = _layout([], "")
    layout["height"] = 220 + 22 * len(rows)
    layout["xaxis"] |= {"tickangle": -45, "showgrid": False}
    layout["yaxis"] = {"autorange": "reversed", "automargin": True, "showgrid": False, "zeroline": False}
    return {"data": [trace], "layout": layout}


def _pair_text(pair: Pair | None, attribute: str, other: str) -> str:
    if pair is None or pair.share is None:
        return ""
    share = f"{'at least ' if pair.is_lower_bound else ''}{pair.share:.1%}"
    return f"of {pair.num_images:,} images with {attribute}, {share} show {other}"


def _layout(shown: list[Rate], title: str) -> Figure:
    return {
        "height": 110 + 22 * len(shown),
        "margin": {"l": 10, "r": 20, "t": 20, "b": 50},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": {
            "title": {"text": title},
            "automargin": True,
            "gridcolor": _GRID,
            "zeroline": False,
            "fixedrange": True,
        },
        "yaxis": {
            "tickvals": list(range(len(shown))),
            "ticktext": [_label(rate.group) for rate in shown],
            "range": [len(shown) - 0.5, -0.5],
            "automargin": True,
            "gridcolor": _GRID,
            "zeroline": False,
            "fixedrange": True,
        },
    }


def _label(name: str) -> str:
    """A corpus's name as Plotly text: shortened, then escaped; an empty name would be no label at all."""
    return html.escape(shortened(name, _MAX_LABEL), quote=False) or '""'

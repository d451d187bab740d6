"""Line charts as SVG, written by hand: a few lines of text that every browser draws, and no library to install."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 420, 280, 52, 40, 28, 14
LEGEND = 150
FONT = 'font-family="sans-serif" font-size="11"'
_DASHES = ("", "6 3", "2 3")

Lines = Mapping[str, Sequence[tuple[float, float]]]


def line_charts(charts: Mapping[str, Lines], *, x_label: str, y_label: str) -> str:
    """Charts side by side with one legend: title -> name of the line -> points."""
    names = list(dict.fromkeys(name for lines in charts.values() for name in lines))
    height = max(HEIGHT, TOP + 18 * len(names) + 10)
    width = WIDTH * len(charts) + LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {FONT}>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, (title, lines) in enumerate(charts.items()):
        parts += _chart(title, lines, names, WIDTH * number, x_label, y_label)
    for place, name in enumerate(names):
        y = TOP + 18 * place
        x = WIDTH * len(charts)
        parts.append(f'<line x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}" {_stroke(place)}/>')
        parts.append(f'<text x="{x + 30}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _stroke(place: int) -> str:
    dash = _DASHES[place // len(COLOURS) % len(_DASHES)]
    return f'stroke="{COLOURS[place % len(COLOURS)]}" stroke-width="1.8" fill="none" stroke-dasharray="{dash}"'


def _chart(title: str, lines: Lines, names: Sequence[str], left: int, x_label: str, y_label: str) -> list[str]:
    points = [point for line in lines.values() for point in line if point[1] == point[1]]
    if not points:
        return []
    x_low, x_high = _range([x for x, _ in points])
    y_low, y_high = _range([y for _, y in points])

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (y - y_low) / (y_high - y_low) * (HEIGHT - BOTTOM - TOP),
        )

    parts = [f'<text x="{left + WIDTH / 2}" y="16" text-anchor="middle" font-weight="bold">{escape(title)}</text>']
    for k in range(5):
        x, y = x_low + k * (x_high - x_low) / 4, y_low + k * (y_high - y_low) / 4
        (px, bottom), (start, py) = at(x, y_low), at(x_low, y)
        parts.append(f'<line x1="{start:.1f}" y1="{py:.1f}" x2="{left + WIDTH - RIGHT}" y2="{py:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{px:.1f}" y="{bottom + 14:.1f}" text-anchor="middle">{x:.3g}</text>')
        parts.append(f'<text x="{start - 5:.1f}" y="{py + 4:.1f}" text-anchor="end">{y:.3f}</text>')
    parts.append(f'<text x="{left + WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    middle = HEIGHT / 2
    turned = f'transform="rotate(-90 {left + 12} {middle})" text-anchor="middle"'
    parts.append(f'<text x="{left + 12}" y="{middle}" {turned}>{escape(y_label)}</text>')
    for name, line in lines.items():
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in line if point[1] == point[1]))
        parts.append(f'<polyline points="{path}" {_stroke(list(names).index(name))}/>')
    return parts


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, low + 0.5)

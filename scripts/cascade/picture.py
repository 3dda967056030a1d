"""The cascade as a picture: for each variant, what became of the healthy page's visitors, over time."""
import html

WIDTH, LANE, LEFT, TOP = 760, 62, 12, 40
CHART, BAR = 470, 28  # the charts' width and height; their figures stand to the right
STEP = 0.5  # seconds
QUICK = 0.5  # seconds

STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #444 }
.title { font-weight: 600; fill: #111 }
.big { font-size: 15px; font-weight: 600 }
.served { fill: #1a7f37 } .late { fill: #d9a514 } .left { fill: #c0362c }
.silent { fill: #888; opacity: .14 }
@media (prefers-color-scheme: dark) {
  text { fill: #b8b8b8 } .title { fill: #eee } .served { fill: #3fa65a } .late { fill: #c99a1e } .left { fill: #e0574c }
}"""
ENDS = (("left", "left"), ("late", f"waited over {QUICK:g} s"), ("served", "served"))


def span(seconds):
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


def end_of(took, status):
    return ("served" if took <= QUICK else "late") if status == 200 else "left"


def shares(result, before, until):
    """Of those who came in each step of time, the shares that left, that waited, and that were served at once."""
    steps = [{"left": 0, "late": 0, "served": 0} for _ in range(int((until + before) / STEP))]
    for page, at, took, status in result.visits:
        place = int((at + before) / STEP)
        if page == "/" and 0 <= place < len(steps):
            steps[place][end_of(took, status)] += 1
    return [[step[end] / (sum(step.values()) or 1) for end, _ in ENDS] for step in steps]


def area(style, heights, base, width):
    """From the base up to a height at each step."""
    path, last = f"M{LEFT} {base}", None
    for place, height in enumerate(heights):
        if height != last:
            path += f"H{LEFT + place * width:.0f}V{base - height * BAR:.0f}"
        last = height
    return f'<path class="{style}" d="{path}H{LEFT + CHART}V{base}Z"/>' if any(heights) else ""


def lane(result, number, before, until):
    base, right = TOP + LANE * number + LANE - 14, LEFT + CHART + 16
    steps = shares(result, before, until)
    sums = [(1.0, 1.0 - left, 1.0 - left - late) for left, late, _ in steps]
    served, of = result.served()
    return "\n".join((
        f'<text class="title" x="{LEFT}" y="{base - BAR - 5}">{html.escape(result.title)}</text>',
        *filter(None, (area(end, [heights[place] if steps[at][place] else 0 for at, heights in enumerate(sums)], base,
                            CHART / len(steps)) for place, (end, _) in enumerate(ENDS))),
        f'<text class="big {"served" if served > of * 0.95 else "left"}" x="{right}" y="{base - BAR + 11}">'
        f'{served * 100 // of} % served</text>',
        f'<text x="{right}" y="{base - 1}">p99 {span(result.p99())}, {result.wasted:.0f} s of workers wasted</text>'))


def legend():
    at = LEFT + CHART + 16
    for end, words in reversed(ENDS):
        yield f'<rect class="{end}" x="{at}" y="5" width="10" height="10"/><text x="{at + 14}" y="14">{words}</text>'
        at += 22 + 6 * len(words)


def draw(results, before, outage, after):
    """An SVG for light pages and dark ones."""
    until, scale = outage + after, CHART / (before + outage + after)
    bottom = TOP + LANE * len(results)
    begins = LEFT + before * scale
    return "\n".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom}" role="img">',
        "<title>What became of the visitors of a page that does not need the payments, while these were silent</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="silent" x="{begins:.0f}" y="20" width="{outage * scale:.0f}" height="{bottom - 26}"/>',
        f'<text x="{begins:.0f}" y="14">the payments are silent for {outage:g} s</text>',
        *legend(),
        *(lane(result, number, before, until) for number, result in enumerate(results)),
        "</svg>\n"))

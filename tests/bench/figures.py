"""Pairs of figures, what they come to, and the table that a person reads."""
import statistics

WIDTHS = "{:<47} {:>11} {:>11} {:>7} {:>15}  {:<16} {}"


class NotMeasured(Exception):
    """Why this machine can't tell."""


def alternate(one, other, count):
    """`count` pairs of what the two say, asked one right after the other; each goes first in half of the pairs."""
    pairs = []
    for number in range(count):
        if number % 2:
            second = other()
            pairs.append((one(), second))
        else:
            first = one()
            pairs.append((first, other()))
    return pairs


def quartiles(values):
    """Lower quartile, median, upper quartile."""
    if len(values) == 1:
        return values * 3
    return statistics.quantiles(values, n=4, method="inclusive")


def number(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


class Table:
    """Prints each row as soon as it is known, and remembers how many are not as wanted."""

    def __init__(self, out=print):
        self.out = out
        self.judged = self.bad = 0
        self._head = ()

    def head(self, what, one, other):
        """Of the rows that follow: what they are about, and the names of the two sides."""
        self._head = what, one, other

    def _print_head(self):
        if self._head:
            self.out("")
            self.out(WIDTHS.format(*self._head, "ratio", "middle half", "wanted", "as wanted").rstrip())
            self._head = ()

    def _row(self, what, one, other, ratio, spread, wanted, good):
        self._print_head()
        verdict = "-" if good is None else "yes" if good else "NO"
        self.judged += good is not None
        self.bad += good is False
        self.out(WIDTHS.format(what, one, other, ratio, spread, wanted or "-", verdict))

    def ratios(self, what, pairs, most=None, least=None, most_more=None, unit=1):
        """The median of the pairs' ratios, second to first. Wanted: at `most`, at `least`, or at `most_more` beyond
        the first, in units."""
        if not all(one for one, _ in pairs):
            raise NotMeasured("the first figure is 0: there is no ratio to it")
        low, ratio, high = quartiles([other / one for one, other in pairs])
        wanted, good = None, None
        if most is not None:
            wanted, good = f"{most} or less", ratio <= most
        elif least is not None:
            wanted, good = f"{least} or more", ratio >= least
        elif most_more is not None:
            more = statistics.median(other - one for one, other in pairs) / unit
            wanted, good = f"+{most_more} or less", more <= most_more
            what += f" ({more:+,.0f})"
        self._row(what, *(number(statistics.median(side) / unit) for side in zip(*pairs)), f"{ratio:.3f}",
                  f"{low:.3f} - {high:.3f}", wanted, good)

    def count(self, what, bare, guarded, most_more):
        """Something that is counted, and no matter of time."""
        self._row(what, f"{bare:.2f}", f"{guarded:.2f}", "", f"{guarded - bare:+.2f}", f"{most_more:+d} or less",
                  guarded - bare < most_more + 0.05)

    def not_measured(self, what, why):
        self._print_head()
        self.out(f"{what:<47} not measured: {why}")

    def end(self):
        """What is to be said last; empty if all is well."""
        return f"bench: {self.bad} of {self.judged} figures not as wanted" if self.bad else ""

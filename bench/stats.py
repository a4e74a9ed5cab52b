"""The arithmetic of make bench: medians with a distribution-free interval, and what an interval
says about a bar. No clock and no file is touched here."""

import math
import statistics

CONFIDENCE = 0.95


def interval(values):
    """(low, high): order statistics that hold the median with at least CONFIDENCE, or, with too few
    values for that, the smallest and the largest."""
    ordered = sorted(values)
    n = len(ordered)
    outside = (1 - CONFIDENCE) / 2
    tail = 0.0
    rank = 0  # how many values may be left out at each end
    for k in range(n // 2):
        tail += math.comb(n, k) / 2**n
        if tail > outside:
            break
        rank = k
    return ordered[rank], ordered[n - 1 - rank]


def verdict(low, high, kind, bar):
    """"yes" when the whole interval is on the good side (the bar itself is good), "no" when the
    whole interval lies beyond the bar, else "unsure"."""
    if kind == "min":
        low, high, bar = -high, -low, -bar
    if high <= bar:
        return "yes"
    return "no" if low > bar else "unsure"


def values_of(line):
    """The values of one result line: per-block ratios for a pair, else what it says itself."""
    if line["measure"] == "cost_ratio":
        return [ours / theirs for ours, theirs in zip(line["ours_ns"], line["yardstick_ns"])]
    if line["measure"] == "speed_ratio":
        return [theirs / ours for ours, theirs in zip(line["ours_ns"], line["yardstick_ns"])]
    return list(line["values"])


def summary(line):
    """A result line as {value, low, high, blocks}."""
    values = values_of(line)
    low, high = interval(values)
    return {"value": statistics.median(values), "low": low, "high": high, "blocks": len(values)}

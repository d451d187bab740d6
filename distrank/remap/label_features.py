"""Label features: what tells how much a label is worth.  [Ustinovskiy16] Table 1

The 29 features of the paper, in this order: the label `cl`; then 14 raw features times I(cl = 1); then the same times
I(cl = 0). The raw ones of a label by annotator w on item i:

    pi_00, pi_01, pi_10, pi_11     confusion matrix of w under dawid-skene, P(label | grade)
    ability                        of w under glad
    correct_ds, correct_glad       P(the true grade is the label)
    one_ds, one_glad               P(w says 1 on i): over the posterior of the true grade
    zero_ds, zero_glad             P(w says 0 on i)
    log_judgments                  log of how many labels w gave
    share_0                        share of 0 among them
    honeypots                      share of right answers of w to honeypots

Three more (`soft`) are not of the paper: a constant and the log-odds of the posterior of 1 under either model. With the
coefficient 1 on the second the relevance value of a label is dawid-skene's soft label, which is where beta starts.

Every column is divided by its largest size, so that one step size fits all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.records import Array
from distrank.remap.consensus import Consensus

RAW = (
    "pi_00", "pi_01", "pi_10", "pi_11", "ability", "correct_ds", "correct_glad", "one_ds", "one_glad", "zero_ds",
    "zero_glad", "log_judgments", "share_0", "honeypots",
)  # fmt: skip
PAPER = ("cl", *(f"{name}|1" for name in RAW), *(f"{name}|0" for name in RAW))
SOFT = ("constant", "odds_ds", "odds_glad")
GROUPS = {  # of Table 5
    "basic": ("cl", "log_judgments", "share_0", "honeypots"),
    "dawid-skene": ("pi_00", "pi_01", "pi_10", "pi_11", "correct_ds", "one_ds", "zero_ds", "constant", "odds_ds"),
    "glad": ("ability", "correct_glad", "one_glad", "zero_glad", "constant", "odds_glad"),
}
_WIDEST_ODDS = 6.0


@dataclass(frozen=True)
class LabelFeatures:
    """A row for every label; `scale` is what columns were divided by."""

    names: tuple[str, ...]
    values: Array
    scale: Array

    def start(self) -> Array:
        """beta before the first step: the soft label where it is among the features, else the label itself."""
        name = "odds_ds" if "odds_ds" in self.names else "cl"
        beta = np.zeros(len(self.names))
        place = self.names.index(name) if name in self.names else 0
        beta[place] = self.scale[place]
        return beta

    def chosen(self, groups: tuple[str, ...]) -> LabelFeatures:
        """The features of some groups alone, for an ablation."""
        kept = {name for group in groups for name in GROUPS[group]}
        places = [place for place, name in enumerate(self.names) if name.split("|")[0] in kept]
        return LabelFeatures(tuple(self.names[p] for p in places), self.values[:, places].copy(), self.scale[places])


def label_features(
    consensus: Consensus,
    annotator: Array,
    item: Array,
    label: Array,
    *,
    soft: bool = True,
    more: tuple[tuple[str, ...], Array] | None = None,
    scale: Array | None = None,
) -> LabelFeatures:
    """The features of every label, given by annotator, item (number in code order) and label (0 or 1).

    `more` are columns of the user's own; `scale` that of features that parameters were fitted to.
    """
    one = label.astype(np.float64)
    raw = _raw(consensus, annotator, item, label)
    columns = [one, *(column * one for column in raw), *(column * (1.0 - one) for column in raw)]
    names = PAPER
    if soft:
        names += SOFT
        columns += [np.ones(len(one)), *(_log_odds(p[item]) for p in (consensus.dawid_skene, consensus.glad))]
    if more is not None:
        names += more[0]
        columns += list(more[1].T)
    values = np.stack(columns, axis=1)
    largest = np.abs(values).max(axis=0, initial=0.0)
    scale = np.where(largest > 0.0, largest, 1.0) if scale is None else scale
    return LabelFeatures(names, values / scale, scale)


def _raw(consensus: Consensus, annotator: Array, item: Array, label: Array) -> list[Array]:
    pi = consensus.confusion[annotator]
    ds, glad = consensus.dawid_skene[item], consensus.glad[item]
    right = 1.0 / (1.0 + np.exp(-consensus.ability[annotator] * consensus.easiness[item]))
    one_ds = ds * pi[:, 1, 1] + (1.0 - ds) * pi[:, 0, 1]
    one_glad = glad * right + (1.0 - glad) * (1.0 - right)
    return [
        pi[:, 0, 0],
        pi[:, 0, 1],
        pi[:, 1, 0],
        pi[:, 1, 1],
        consensus.ability[annotator],
        np.where(label == 1, ds, 1.0 - ds),
        np.where(label == 1, glad, 1.0 - glad),
        one_ds,
        one_glad,
        1.0 - one_ds,
        1.0 - one_glad,
        np.log(np.maximum(consensus.judgments[annotator], 1)),
        consensus.lower[annotator],
        consensus.honeypots[annotator],
    ]


def _log_odds(probability: Array) -> Array:
    inside = np.clip(probability, 1e-12, 1.0 - 1e-12)
    return np.clip(np.log(inside / (1.0 - inside)), -_WIDEST_ODDS, _WIDEST_ODDS)

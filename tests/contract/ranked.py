"""A crowd as rankings with features and gold, for the models that learn rankers.

Everything is made of counts, so that laws about crowds are laws about what is made of them: other names or another
order of the rows give the same lists under the new names, and degenerate crowds give degenerate lists.
"""

from __future__ import annotations

import pandas as pd

NEED_GOLD = ("listmle",)


def rankings_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Rankings as they are; of preferences, the items of a query by every annotator's balance of wins."""
    if "rank" in frame:
        return frame
    balance = _balance(frame, ["query", "annotator"])
    rank = balance.groupby(["query", "annotator"])["balance"].rank(ascending=False, method="min")
    return balance.assign(rank=rank)[["query", "annotator", "item", "rank"]]


def features_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Two features per item: how often it was judged, and a noisy balance."""
    balance = _balance(frame, ["query"])
    share = balance["balance"] / balance["games"] + 0.3 * ((7 * balance["games"]) % 5)
    return balance.assign(games=balance["games"].astype(float), share=share)[["query", "item", "games", "share"]]


def gold_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Grades by the balance of all judgments."""
    return _balance(frame, ["query"]).rename(columns={"balance": "relevance"})[["query", "item", "relevance"]]


def _balance(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    if "rank" in frame:
        both = frame[[*by, "item"]].assign(balance=-frame["rank"].astype(float), games=1)
    else:
        won = frame[[*by, "winner"]].rename(columns={"winner": "item"}).assign(balance=1.0)
        lost = frame[[*by, "loser"]].rename(columns={"loser": "item"}).assign(balance=-1.0)
        both = pd.concat([won, lost]).assign(games=1)
    return both.groupby([*by, "item"], as_index=False).sum()

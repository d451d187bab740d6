"""Statements about annotators: the penalised objective is maximised, and the paper's S1, S2, S3 are special cases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from distrank import LTRMA
from distrank.errors import InputError
from distrank.models._expertise import (
    annotator_objective,
    fitted_expertise,
    no_side_information,
    pair_accuracy,
    side_objective,
    spread_of,
)
from distrank.models._lists import Kinds
from distrank.simulate import simulate_ltrma
from distrank.tables.annotator_info import annotator_info_from_frame, side_information

PEOPLE = pa.array(["a", "b", "c", "d"])
# twenty lists of 10 items each
KINDS = Kinds(np.arange(5), np.full(4, 10), np.full(4, 10), np.full(4, 20.0))


def statements(*rows: dict[str, object]) -> dict[str, np.ndarray]:
    record, warnings = side_information(annotator_info_from_frame(pd.DataFrame(list(rows))), PEOPLE)
    assert warnings == []
    return {**no_side_information(), **record}


def distances(*theta: float) -> np.ndarray:
    """The expected sums of distances of annotators with these theta."""
    return spread_of(KINDS, np.array(theta))[0]


def fitted(distance: np.ndarray, side: dict[str, np.ndarray]) -> np.ndarray:
    theta = fitted_expertise(KINDS, distance, np.full(4, -1.0), side)

    def value(at: np.ndarray) -> float:
        return float((at * distance + annotator_objective(KINDS, at)).sum()) + side_objective(at, side)

    top = value(theta)
    rng = np.random.default_rng(1)
    for _ in range(20):  # a maximum: no step leads up, except from values that are known
        step = 1e-4 * rng.normal(size=4)
        step[side["side.fixed"]] = 0.0
        assert value(theta + step) <= top + 1e-9
    return theta


def test_without_statements_everybody_is_fitted_alone() -> None:
    truth = (-0.9, -0.5, -0.1, 0.3)
    np.testing.assert_allclose(fitted(distances(*truth), no_side_information()), truth, atol=1e-9)


def test_a_known_value_is_kept_and_a_confident_one_is_approached() -> None:
    distance = distances(-0.9, -0.5, -0.1, 0.3)
    exact = fitted(distance, statements({"annotator": "b", "kind": "known", "value": -2.0}))
    np.testing.assert_allclose(exact, [-0.9, -2.0, -0.1, 0.3], atol=1e-9)
    near = [
        fitted(distance, statements({"annotator": "b", "kind": "known", "value": -2.0, "confidence": c}))[1]
        for c in (1.0, 20.0, 2000.0)
    ]
    assert -0.5 > near[0] > near[1] > near[2] > -2.01
    assert near[2] == pytest.approx(-2.0, abs=0.01)


def test_a_range_that_the_data_contradict_ends_at_its_near_end() -> None:
    """The printed rule (39) goes to the far end, -3."""
    distance = distances(-0.5, -0.5, -0.5, -0.5)
    theta = fitted(
        distance, statements({"annotator": "a", "kind": "range", "low": -3.0, "high": -1.0, "confidence": 500})
    )
    assert theta[0] == pytest.approx(-1.0, abs=0.02)
    np.testing.assert_allclose(theta[1:], -0.5, atol=1e-9)


def test_a_range_that_the_data_confirm_changes_little() -> None:
    distance = distances(-0.5, -0.5, -0.5, -0.5)
    theta = fitted(distance, statements({"annotator": "a", "kind": "range", "low": -1.5, "high": 0.5}))
    assert theta[0] == pytest.approx(-0.5, abs=1e-6)


def test_relations_of_any_pairs_order_the_values() -> None:
    """S3: the first is better than all others, which the data deny; and a chain among the others."""
    distance = distances(-0.2, -0.5, -0.4, -0.3)
    best = [{"annotator": "a", "kind": "better_than", "other": other, "confidence": 300.0} for other in "bcd"]
    theta = fitted(distance, statements(*best))
    assert theta[0] <= theta[1:].min() + 0.01
    chain = [
        {"annotator": "d", "kind": "better_than", "other": "c", "confidence": 300.0},
        {"annotator": "c", "kind": "better_than", "other": "b", "confidence": 300.0},
    ]
    theta = fitted(distance, statements(*chain))
    assert theta[3] <= theta[2] + 0.01 <= theta[1] + 0.02
    assert theta[0] == pytest.approx(-0.2, abs=1e-9)


def test_no_confidence_is_no_statement() -> None:
    distance = distances(-0.2, -0.5, -0.4, -0.3)
    theta = fitted(distance, statements({"annotator": "a", "kind": "better_than", "other": "b", "confidence": 1e-9}))
    np.testing.assert_allclose(theta, [-0.2, -0.5, -0.4, -0.3], atol=1e-6)


def test_any_mix_of_statements() -> None:
    distance = distances(-0.2, -0.5, -0.4, -0.3)
    theta = fitted(
        distance,
        statements(
            {"annotator": "a", "kind": "known", "value": -0.8},
            {"annotator": "b", "kind": "better_than", "other": "a", "confidence": 300.0},
            {"annotator": "b", "kind": "range", "low": -2.0, "high": -0.9, "confidence": 300.0},
            {"annotator": "c", "kind": "known", "value": -0.6, "confidence": 5.0},
        ),
    )
    assert theta[0] == -0.8
    assert theta[1] == pytest.approx(-0.9, abs=0.03)
    assert -0.6 < theta[2] < -0.4


def test_quality_is_the_expected_share_of_right_pairs() -> None:
    quality = pair_accuracy(KINDS, np.array([-20.0, 0.0, 20.0, -0.5]))
    np.testing.assert_allclose(quality[:3], [1.0, 0.5, 0.0], atol=1e-6)
    assert quality[3] == pytest.approx(1.0 - distances(-0.5, -0.5, -0.5, -0.5)[0] / (20 * 45))


def test_the_paper_s_cases_in_a_fit() -> None:
    crowd = simulate_ltrma(case="hard", annotators=4, test=0, seed=2)
    tables = crowd["rankings"], crowd["features"]
    plain = LTRMA().fit(*tables).annotators["theta"].to_numpy()
    known = pd.DataFrame({"annotator": ["a1"], "kind": ["known"], "value": [-1.5]})
    s1 = LTRMA().fit(*tables, annotator_info=known).annotators
    assert s1["theta"][1] == -1.5
    assert s1["theta_error"][1] == 0.0
    within = pd.DataFrame(
        {"annotator": ["a0"], "kind": ["range"], "low": [-3.0], "high": [-1.0], "confidence": [1000.0]}
    )
    s2 = LTRMA().fit(*tables, annotator_info=within).annotators["theta"].to_numpy()
    assert s2[0] == pytest.approx(-1.0, abs=0.03)
    worst = int(plain.argmax())
    best = pd.DataFrame(
        {"annotator": f"a{worst}", "kind": "better_than", "other": [f"a{n}" for n in range(4) if n != worst]}
    )
    s3 = LTRMA().fit(*tables, annotator_info=best).annotators["theta"].to_numpy()
    assert s3[worst] < plain[worst]
    stranger = pd.DataFrame({"annotator": ["nobody"], "kind": ["known"], "value": [-1.0]})
    result = LTRMA().fit(*tables, annotator_info=stranger)
    assert any("without judgments" in warning for warning in result.warnings)
    np.testing.assert_array_equal(result.annotators["theta"], plain)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"annotator": "a", "kind": "friend"}, "row 1: kind is 'friend'"),
        ({"annotator": "a", "kind": "known"}, "known needs value"),
        ({"annotator": "a", "kind": "range", "low": 1.0, "high": -1.0}, "above high"),
        ({"annotator": "a", "kind": "range", "low": -1.0}, "range needs high"),
        ({"annotator": "a", "kind": "better_than"}, "better_than needs other"),
        ({"annotator": "a", "kind": "known", "value": -1.0, "confidence": -2.0}, "must be above 0"),
        ({"annotator": "a", "kind": "known", "value": -50.0}, "theta lies between"),
        ({"annotator": "", "kind": "known", "value": -1.0}, "annotator is null or empty"),
        ({"annotator": "a", "kind": "known", "value": "much"}, "value is not a finite number"),
    ],
)
def test_bad_statements_are_errors_with_their_row(row: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        annotator_info_from_frame(pd.DataFrame([row]))


def test_two_known_values_of_one_annotator_are_an_error() -> None:
    rows = [{"annotator": "a", "kind": "known", "value": value} for value in (-1.0, -2.0)]
    with pytest.raises(InputError, match="known twice"):
        annotator_info_from_frame(pd.DataFrame(rows))

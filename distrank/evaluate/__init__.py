"""Rankings measured against gold, per query and in the mean, alone or side by side."""

from distrank.evaluate.evaluation import Comparison, Evaluation, compare, evaluate
from distrank.evaluate.render import (
    comparison_dict,
    comparison_text,
    evaluation_dict,
    evaluation_text,
    queries_text,
    table_csv,
    table_rows,
    table_text,
)
from distrank.evaluate.significance import PairedTest, paired_test, significance

__all__ = [
    "Comparison",
    "Evaluation",
    "PairedTest",
    "compare",
    "comparison_dict",
    "comparison_text",
    "evaluate",
    "evaluation_dict",
    "evaluation_text",
    "paired_test",
    "queries_text",
    "significance",
    "table_csv",
    "table_rows",
    "table_text",
]

"""Settings: typed, validated, documented where they are declared.

A model declares a frozen dataclass whose fields are made with `setting(...)`. The same names mean the same thing in
every model; values arrive as text (`--set name=value`), as YAML values, or as Python values, and all three go
through `parse_settings`.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from distrank.errors import UsageError

S = TypeVar("S")


def setting(
    default: Any,
    help: str,  # noqa: A002 (the word people know)
    *,
    choices: tuple[str, ...] = (),
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> Any:
    """A dataclass field with its help text and the rule its values obey (`above` is an exclusive lower bound)."""
    rule = {"help": help, "choices": choices, "low": low, "high": high, "above": above}
    return dataclasses.field(default=default, metadata=rule)


def parse_settings(kind: type[S], values: Mapping[str, Any], others: Sequence[str] = ()) -> S:
    """Build the settings dataclass from names and values; an unknown name is an error that lists the known ones.

    `others` are names that the caller has taken out already, to be listed with them.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    for name in values:
        if name not in fields:
            known = ", ".join(sorted({*fields, *others}))
            raise UsageError(f"unknown setting {name!r}; known here: {known}")
    parsed = {name: _parse(fields[name], hints[name], value) for name, value in values.items()}
    return kind(**parsed)


def describe_settings(kind: type[Any]) -> list[dict[str, Any]]:
    """Name, default, help and rule of every setting, for `--help` and the documentation."""
    return [
        {"name": field.name, "default": field.default, "help": field.metadata.get("help", ""), "rule": _rule(field)}
        for field in dataclasses.fields(kind)
    ]


def settings_dict(settings: Any) -> dict[str, Any]:
    """The settings as plain values, in the order of declaration (for run.json and the run id)."""
    return {
        field.name: list(value) if isinstance(value := getattr(settings, field.name), tuple) else value
        for field in dataclasses.fields(settings)
    }


def _rule(field: dataclasses.Field[Any]) -> str:
    meta = field.metadata
    if meta.get("choices"):
        return "one of " + ", ".join(meta["choices"])
    parts = []
    if meta.get("above") is not None:
        parts.append(f"above {meta['above']:g}")
    if meta.get("low") is not None:
        parts.append(f"at least {meta['low']:g}")
    if meta.get("high") is not None:
        parts.append(f"at most {meta['high']:g}")
    return " and ".join(parts)


def _parse(field: dataclasses.Field[Any], hint: Any, value: Any) -> Any:
    """One value, converted to the field's type and checked against its rule."""
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    options = typing.get_args(hint) if union else (hint,)
    if type(None) in options and (value is None or (isinstance(value, str) and value.lower() == "none")):
        return None
    for option in options:
        if option is type(None):
            continue
        try:
            converted = _convert(option, value)
        except (ValueError, TypeError, OverflowError):
            continue
        if _obeys(field, converted):
            return converted
    raise UsageError(f"setting {field.name}={value!r}: expected {_expected(field, options)}")


def _expected(field: dataclasses.Field[Any], options: tuple[Any, ...]) -> str:
    """What a value may be: types with the rule that numbers obey, then words."""
    rule = _rule(field)
    if field.metadata.get("choices"):
        return f"text, {rule}"
    words = [option for option in options if typing.get_origin(option) is typing.Literal]
    names = " or ".join(_type_name(option) for option in options if option not in words)
    return ", ".join([name for name in (names, rule) if name] + [f"or {_type_name(option)}" for option in words])


def _convert(option: Any, value: Any) -> Any:
    if typing.get_origin(option) is typing.Literal:
        return str(value) if str(value) in typing.get_args(option) else _fail(value)
    if option is bool:
        return _to_bool(value)
    if option is int:
        if isinstance(value, bool):
            raise ValueError(value)
        return int(value) if not isinstance(value, float) or value.is_integer() else _fail(value)
    if option is float:
        number = float(value) if not isinstance(value, bool) else _fail(value)
        return number if math.isfinite(number) else _fail(value)
    if typing.get_origin(option) is tuple:
        parts = value.split(",") if isinstance(value, str) else list(value)
        kinds = typing.get_args(option)
        if len(parts) != len(kinds):
            raise ValueError(value)
        return tuple(_convert(kind, part) for kind, part in zip(kinds, parts, strict=True))
    return str(value)


def _fail(value: Any) -> Any:
    raise ValueError(value)


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if str(value).lower() not in words:
        raise ValueError(value)
    return words[str(value).lower()]


def _obeys(field: dataclasses.Field[Any], value: Any) -> bool:
    meta = field.metadata
    if isinstance(value, str):
        return not meta.get("choices") or value in meta["choices"]
    numbers = value if isinstance(value, tuple) else (value,)
    return all(
        (meta.get("low") is None or number >= meta["low"])
        and (meta.get("high") is None or number <= meta["high"])
        and (meta.get("above") is None or number > meta["above"])
        for number in numbers
    )


def _type_name(option: Any) -> str:
    if typing.get_origin(option) is typing.Literal:
        return " or ".join(map(str, typing.get_args(option)))
    if typing.get_origin(option) is tuple:
        return ",".join(_type_name(kind) for kind in typing.get_args(option))
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "none"}[option]

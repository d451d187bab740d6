"""Where models run: `base` says what an engine offers, `local` and `ray` are the two places.

Only `engine/ray/` imports ray, and nothing imports `engine/ray/` before an engine of that kind is asked for.
"""

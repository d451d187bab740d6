"""Re-aggregation every night: only what changed, checked, compared with the night before, published atomically.

config       the YAML file of a night, validated
partitions   what is new, changed or gone since the last run
gates        what a result must fulfil before it is published
night        one night from lock to publish, or to the record of its failure
history      what happened in the nights so far
"""

"""Durability: runs that are published all or nothing, and checkpoints that a killed run goes on from.

publish       the output folder: runs, `latest`, the atomic step, how RUN is resolved
checkpoints   complete states of a fit, committed by a manifest
files         fsync, sha256, names that stay inside their folder
"""

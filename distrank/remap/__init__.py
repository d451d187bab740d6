"""Rankers from noisy labels: label features, reweighting and remapping, baselines.  [Ustinovskiy16]"""

"""Thurstone's model (Case V) with the quality of every annotator: Crowd-BT with the probit link.  [Chen13], section 3.1

    P(i beats j) = Phi((s_i - s_j) / sqrt 2)                                                                (7)
    P(k reports i over j) = eta_k Phi((s_i - s_j) / sqrt 2) + (1 - eta_k) Phi((s_j - s_i) / sqrt 2)

Everything but the law of a comparison is that of `crowd_bt`: objective, start, mirror image, settings;
`annotator_quality=equal` is the plain model. The virtual games follow the same law, which section 3.2 leaves open.

A surprise costs the square of the difference here and the difference itself in Bradley-Terry, so one wrong judgment
of a trusted annotator pulls harder.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

from distrank.kernels.laws import PROBIT
from distrank.models.crowd_bt import CrowdBT


class Thurstone(CrowdBT):
    """Maximum of equation 8 with the link of equation 7."""

    name = "thurstone"
    title = "Thurstone: scores by the probit link, with annotator quality"
    law = PROBIT

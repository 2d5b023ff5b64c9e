"""The papers' claims as code: what to run, and the rule that accepts."""

from __future__ import annotations

from lemmata_core import Claim

from icl_theory._claims_bayes import CLAIMS_BAYES
from icl_theory._claims_forgetting import CLAIMS_FORGETTING
from icl_theory._claims_gap import CLAIMS_GAP
from icl_theory._claims_outliers import CLAIMS_TRAINED
from icl_theory._claims_reach import CLAIMS_REACH

CLAIMS: tuple[Claim, ...] = tuple(
    sorted((*CLAIMS_TRAINED, *CLAIMS_REACH, *CLAIMS_BAYES, *CLAIMS_GAP, *CLAIMS_FORGETTING), key=lambda claim: claim.id)
)

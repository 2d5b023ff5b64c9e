"""The paper's claims as code: what to run, and the rule that accepts."""

from __future__ import annotations

from lemmata_core import Claim

from rl_mfpo._claims_bandit import CLAIMS_BANDIT
from rl_mfpo._claims_cost import CLAIMS_COST
from rl_mfpo._claims_learning import CLAIMS_LEARNING

CLAIMS: tuple[Claim, ...] = tuple(sorted((*CLAIMS_BANDIT, *CLAIMS_COST, *CLAIMS_LEARNING), key=lambda claim: claim.id))

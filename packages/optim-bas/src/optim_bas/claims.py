"""The paper's claims as code. Runs are in the `claim_` files; here is what is claimed.

Of the paper only the abstract is public to us; the sources say so.
"""

from __future__ import annotations

from lemmata_core import Claim

from optim_bas import claim_exact as exact

ABSTRACT = "Block Adaptive Signum, ICML 2026, abstract"
OURS = "ours, not the paper's"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="optim-bas/memory",
        statement="The state takes 12.5 % of AdamW's memory",
        source=ABSTRACT,
        paper="12.5 % of AdamW's",
        run=exact.run_memory,
        accept=exact.accept_memory,
    ),
    Claim(
        id="optim-bas/adam-limit",
        statement="With blocks of one entry the update is AdamW's",
        source=ABSTRACT + " (bridges Adam and SignSGD)",
        run=exact.run_adam_limit,
        accept=exact.accept_adam_limit,
    ),
    Claim(
        id="optim-bas/sign-limit",
        statement="With both betas zero the update is SignSGD's",
        source=ABSTRACT + " (bridges Adam and SignSGD)",
        run=exact.run_sign_limit,
        accept=exact.accept_sign_limit,
    ),
)

"""The paper's claims as code. Runs are in the `claim_` files; here is what is claimed.

Of the paper only the abstract is public to us; the sources say so.
"""

from __future__ import annotations

from lemmata_core import Claim

from optim_bas import claim_exact as exact
from optim_bas import claim_training as training
from optim_bas.claim_rate import accept_rate, run_rate
from optim_bas.claim_wire import accept_wire, run_wire

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
    Claim(
        id="optim-bas/parity",
        statement="The loss is on par with AdamW's at AdamW's own hyper-parameters: two texts",
        source=ABSTRACT,
        paper="on par, 1.5B parameters on 100B tokens",
        run=training.run_parity,
        accept=training.accept_parity,
    ),
    Claim(
        id="optim-bas/parity-digits",
        statement="The loss is on par with AdamW's at AdamW's own hyper-parameters: three nets on digits",
        source=ABSTRACT,
        paper="on par",
        run=training.run_parity_digits,
        accept=training.accept_parity_digits,
        requires=("sklearn",),
    ),
    Claim(
        id="optim-bas/parity-peers",
        statement="The loss is no worse than that of other optimizers that share the second moment",
        source=OURS,
        run=training.run_peers,
        accept=training.accept_peers,
    ),
    Claim(
        id="optim-bas/transfer",
        statement="The best learning rate is AdamW's",
        source=ABSTRACT + " (inherits the hyper-parameters)",
        paper="Adam's hyper-parameters are used as they are",
        run=training.run_transfer,
        accept=training.accept_transfer,
    ),
    Claim(
        id="optim-bas/fp8",
        statement="A float8 momentum costs no loss",
        source=ABSTRACT,
        paper="without loss",
        run=training.run_fp8,
        accept=training.accept_fp8,
    ),
    Claim(
        id="optim-bas/finetune",
        statement="A net that AdamW trained is fine-tuned as well as by AdamW",
        source=ABSTRACT,
        paper="on par, up to 32B parameters",
        run=training.run_finetune,
        accept=training.accept_finetune,
    ),
    Claim(
        id="optim-bas/convert",
        statement="Going over from AdamW to BAS in the middle of a run gives no spike",
        source=OURS,
        run=training.run_convert,
        accept=training.accept_convert,
    ),
    Claim(
        id="optim-bas/wire",
        statement="Exchanging signs sends a 32nd of the bytes, less a little for step sizes, at the same loss",
        source=ABSTRACT,
        paper="a communication-efficient variant that rests on the sign",
        run=run_wire,
        accept=accept_wire,
    ),
    Claim(
        id="optim-bas/rate",
        statement="The mean gradient norm falls as T^(-1/4) or faster",
        source=ABSTRACT,
        paper="converges under standard assumptions",
        run=run_rate,
        accept=accept_rate,
    ),
)

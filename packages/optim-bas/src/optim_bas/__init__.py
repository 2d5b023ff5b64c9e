"""BAS, block adaptive signum: AdamW's arguments and behaviour on one byte of optimizer state a parameter."""

from importlib.metadata import version

from optim_bas.exchange import SignExchange, local_gradients
from optim_bas.fp8 import decode, encode
from optim_bas.memory import StateBytes, state_bytes
from optim_bas.optimizer import BAS
from optim_bas.signs import pack_signs, unpack_signs
from optim_bas.step import bas_step, block_scale

__all__ = [
    "BAS",
    "SignExchange",
    "StateBytes",
    "bas_step",
    "block_scale",
    "decode",
    "encode",
    "local_gradients",
    "pack_signs",
    "state_bytes",
    "unpack_signs",
]
__version__ = version("optim-bas")

"""``python -m cg_tensorproduct``."""

from cg_tensorproduct.cli import main

main()

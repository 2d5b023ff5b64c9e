"""Run the command line as ``python -m icl_theory``."""

from icl_theory.cli import main

main()

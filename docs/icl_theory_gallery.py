"""Draw the gallery of icl-theory's page from the evidence of its claims.

Needs the extra ``icl-theory[plot]``::

    lemmata reproduce icl-theory --scale laptop --out OUT
    python docs/icl_theory_gallery.py OUT/results.json
"""

import json
import sys
from pathlib import Path

from icl_theory.plots import draw
from lemmata_core import Series

# Picture, claim, and which of the claim's series it shows.
PICTURES = {
    "robustness": ("a1-robustness", 0),
    "phase-diagram": ("a5-training-share", 0),
    "attention": ("a3-attention", 0),
    "gates": ("a4-gates", 0),
    "steps": ("a2-steps", 0),
    "gap": ("b2-rate", 0),
    "separated": ("b3-separated", 0),
    "nested": ("b3-nested", 0),
}


def main(results: Path) -> None:
    """Write ``images/icl-theory-NAME.svg`` beside this file."""
    claims = {row["id"].partition("/")[2]: row for row in json.loads(results.read_text(encoding="utf-8"))["claims"]}
    folder = Path(__file__).parent / "images"
    for name, (claim, which) in PICTURES.items():
        series = ((claims.get(claim) or {}).get("evidence") or {}).get("series") or []
        if len(series) > which:
            draw([Series(**series[which])], folder / f"icl-theory-{name}.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Draw the gallery of icl-theory's page from the evidence of its claims, and write the page's section on it.

Needs the extra ``icl-theory[plot]``::

    lemmata reproduce icl-theory --scale laptop --out OUT
    python docs/icl_theory_gallery.py OUT/results.json
"""

import json
import re
import sys
from pathlib import Path

from icl_theory.plots import draw
from lemmata_core import Series

HERE = Path(__file__).parent
PAGE = HERE / "packages" / "icl-theory.md"
_SECTION = re.compile(r"(?<=^## Gallery\n\n).*?(?=^## )", re.MULTILINE | re.DOTALL)

# Picture, claim (its first series is shown), and caption.
PICTURES = {
    "robustness": (
        "a1-robustness",
        "Error against the share of outliers at test, trained with 60 % of outliers. Linear attention follows the "
        "closed form of the vote.",
    ),
    "phase-diagram": (
        "a5-training-share",
        "Phase diagram: the same for several shares in training. The more outliers it was trained on, the more Mamba "
        "tolerates.",
    ),
    "attention": (
        "a3-attention",
        "Inside Mamba: attention on examples with the query's pattern and on the others, through training.",
    ),
    "gates": ("a4-gates", "Inside Mamba: the gate of clean examples."),
    "steps": ("a2-steps", "Training steps to a validation loss of 0.2."),
    "gap": ("b2-rate", "The Bayes gap against the number of training prompts."),
    "separated": ("b3-separated", "A Bayes mixture forgets wrong types exponentially where types are separated."),
    "nested": ("b3-nested", "Where types are nested, it forgets them by a power law."),
}


def main(results: Path) -> None:
    """Write ``images/icl-theory-NAME.svg`` beside this file, and the section of the page."""
    claims = {row["id"].partition("/")[2]: row for row in json.loads(results.read_text(encoding="utf-8"))["claims"]}
    parts, scales = [], set()
    for name, (claim, caption) in PICTURES.items():
        row = claims.get(claim) or {}
        series = (row.get("evidence") or {}).get("series")
        # What a scale does not show is not on the page.
        if series:
            draw([Series(**series[0])], HERE / "images" / f"icl-theory-{name}.svg")
            parts.append(f"{caption}\n\n![{caption.split('. ')[0].rstrip('.')}](../images/icl-theory-{name}.svg)\n")
            scales.add(row["scale"])
    made = (
        f"Drawn by `docs/icl_theory_gallery.py` from the evidence of the claims at scale {', '.join(sorted(scales))}.\n"
    )
    text = "\n".join([made, *parts, ""])
    PAGE.write_text(_SECTION.sub(lambda _: text, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Keep what a laptop run found for the site: a line a claim, from the file of results.

    python docs/verdicts.py lemmata-results/results.json

Claims of other packages keep their lines, so that packages can be run one by one.
"""

import csv
import io
import json
import sys
from pathlib import Path

HERE = Path(__file__).with_name("verdicts.csv")
COLUMNS = ("claim", "version", "scale", "verdict", "found", "reason")


def rows(path: Path = HERE) -> dict[str, dict[str, str]]:
    """The lines that are kept, by claim."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["claim"]: row for row in csv.DictReader(file)}


def main(source: Path, target: Path = HERE) -> None:
    """Replace the lines of the packages that `source` has."""
    claims = json.loads(source.read_text(encoding="utf-8"))["claims"]
    run = {claim["package"] for claim in claims}
    kept = {name: row for name, row in rows(target).items() if name.partition("/")[0] not in run}
    for claim in claims:
        found = (claim["evidence"] or {}).get("headline", "")
        values = (claim["id"], claim["version"], claim["scale"], claim["verdict"], found, claim["reason"])
        kept[claim["id"]] = dict(zip(COLUMNS, map(str, values)))
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(kept[name] for name in sorted(kept))
    target.write_text(text.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The `lemmata` command: reproduce, report, list, bench, new, lock, release."""

"""Local search in the problems' own terms; what finishes a relaxed answer. Ours, not the paper's."""

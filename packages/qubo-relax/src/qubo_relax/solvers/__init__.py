"""First-order and flip methods on batches of lanes."""

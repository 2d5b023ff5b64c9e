"""Fair spectral clustering."""

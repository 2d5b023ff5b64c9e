"""Drop-ins for other solvers' call signatures: `lap` and `scipy`."""

"""What runs on the drone: controllers with a NumPy and a JAX face, no JAX import of their own."""

"""What is recorded of a flight, and read back."""

"""What every method is built from: the contract, and what a method can do."""

"""A second target on the same cases: where it disagrees with the first, and which of them is nearer to the oracle."""

"""How far the judge can be trusted: what it finds, and that it leaves right kernels alone."""

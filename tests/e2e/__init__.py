"""The whole program on a sandbox of its own: the real Pulumi CLI, two real clusters, Crossplane, an engine."""

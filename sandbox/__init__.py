"""This machine as two Kubernetes clusters. What a stand-in claims, and what not, is said in its first lines."""

"""This machine as two Kubernetes clusters: what is real, and which stand-ins it has, is said in each module's first lines."""

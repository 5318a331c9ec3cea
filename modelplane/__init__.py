"""The Modelplane API in types: kinds, releases, ModelDeployment dialects, names, readiness rules, XRDs.

What is written here for the cluster is release v0.3.1; v0.1.0 and v0.2.0 manifests are read (dialect.py).
"""

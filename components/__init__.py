"""Pulumi components of the stack, one a file; gates/ is the provider of the resources that wait and check."""

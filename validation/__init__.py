"""The program that the validation Job runs inside the workload cluster, and the verdict it prints.

Standard library and our `engine` package only: it travels to the cluster as one zip file and runs on a stock Python
image.
"""

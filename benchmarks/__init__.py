"""Timings of this project, each as a person meets it. No test: a number needs an idle machine and its conditions."""

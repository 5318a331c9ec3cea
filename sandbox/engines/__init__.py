"""The two engines of the sandbox: the real vLLM for CPU (real.py) and a fake one with the same contract (fake/)."""

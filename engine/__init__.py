"""What we know of vLLM: versions, speculative config, arguments, log lines, metrics, SSE stream, failure causes.

Standard library only, and no file beside the code is read: the validation Job carries this package in a zipapp.
"""

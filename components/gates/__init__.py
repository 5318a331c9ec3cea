"""The stack's own resources: checks, waits with a meaning, and the validation run.

They are served by a small Pulumi provider of this project (`provider.py`, started by the script
`pulumi-resource-speculation` beside it), so that they behave alike in `preview`, `up` and a plain `destroy` (which
does not run the program), hear of Ctrl-C, show progress, and fail with one sentence. `resources.py` is what the
program declares; every other module holds one kind of gate.

Deliberately not `pulumi.dynamic`: its provider pickles code into the state, prints a traceback for each error,
ignores cancellation and knows neither the resource's URN nor whether this is a preview.
"""

"""`python -m recipes check FILE`: the manifests that would be deployed, and everything there is to say about them.

Standard output is YAML that `kubectl apply -f -` takes: findings stand in it as comments.
Exit status: 0 deployable, 1 not deployable, 2 wrong usage (also: no such file, no such release).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from engine.findings import Finding, Problems
from modelplane.manifests import dump
from modelplane.releases import DEPLOYED, REFUSED
from recipes.loader import Checked, check_recipe, recipe_names

_DEPLOYABLE, _NOT_DEPLOYABLE, _USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        checked = check_recipe(arguments.file, arguments.release)
    except Problems as problems:
        if arguments.json:
            print(_json([], problems.findings, deployable=False))
        print(problems, file=sys.stderr)
        return _NOT_DEPLOYABLE if _refused(arguments.release) else _USAGE
    if arguments.json:
        print(_json(checked.manifests, checked.findings, deployable=checked.deployable))
    else:
        print(_text(checked), end="")
    return _DEPLOYABLE if checked.deployable else _NOT_DEPLOYABLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m recipes", description="Recipes: one model serving in one file.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="print the manifests that would be deployed, and every finding",
        description="Print the manifests that would be deployed, and every finding as a comment. "
        "Exit status: 0 deployable, 1 not deployable, 2 wrong usage.",
    )
    check.add_argument("file", metavar="FILE", help=f"a recipe's file, or one of {', '.join(recipe_names())}")
    check.add_argument(
        "--release",
        metavar="R",
        help="the Modelplane release that the file was written for (default: told by its shape); "
        f"it is deployed in the form of {DEPLOYED}",
    )
    check.add_argument("--json", action="store_true", help="print one JSON document instead")
    return parser


def _refused(release: str | None) -> bool:
    return release is not None and release.removeprefix("v") in {refused.removeprefix("v") for refused in REFUSED}


def _text(checked: Checked) -> str:
    comments = [f"# {finding.line()}" for finding in checked.findings]
    errors = sum(line.startswith("# error") for line in comments)
    comments.append(f"# not deployable: {errors} error{'s' * (errors != 1)}" if errors else "# deployable")
    body = dump(checked.manifests) if checked.manifests else ""
    return body + "\n".join(comments) + "\n"


def _json(manifests: Sequence[object], findings: Sequence[Finding], *, deployable: bool) -> str:
    document = {
        "release": DEPLOYED.value,
        "deployable": deployable,
        "findings": [
            {
                "severity": finding.severity.value,
                "path": finding.path,
                "value": finding.value,
                "why": finding.why,
                "remedy": finding.remedy,
            }
            for finding in findings
        ],
        "manifests": list(manifests),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, default=str)


if __name__ == "__main__":
    sys.exit(main())

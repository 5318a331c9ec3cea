"""What the stack says to its user: findings of the configuration, and the values behind `pulumi stack output`."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pulumi

from engine.findings import Finding, Severity
from modelplane.names import ENGINE_NAMESPACE, SERVING_LABEL
from stacks.kubeconfig import Kubeconfig
from stacks.settings import ROOT

# A ModelDeployment has at most ten replicas of at most eight engines; kubectl follows five by default.
MAX_LOGS = 80


def report(findings: Iterable[Finding]) -> None:
    """Show warnings, and end the program with all errors, a line each and without a traceback."""
    wrong = [finding for finding in findings if finding.severity is Severity.ERROR]
    for finding in findings:
        if finding.severity is Severity.WARNING:
            pulumi.log.warn(_text(finding))
    for finding in wrong[:-1]:
        pulumi.log.error(_text(finding))
    if wrong:
        raise pulumi.RunError(_text(wrong[-1]))


def log_command(replicas: Sequence[str], workload: Kubeconfig) -> str:
    """The command that prints the engines' logs: on the workload cluster, by the ModelReplicas' names,
    since pods carry no label of their deployment.
    """
    selector = (
        f"{SERVING_LABEL} in ({','.join(replicas)})" if len(replicas) > 1 else f"{SERVING_LABEL}={''.join(replicas)}"
    )
    logs = f"logs -n {ENGINE_NAMESPACE} -l {shlex.quote(selector)} -c engine --tail=-1"
    if len(replicas) > 1:
        logs += f" --prefix --max-log-requests={MAX_LOGS}"
    if workload.file is not None:
        file, context = shlex.quote(_relative(workload.file)), shlex.quote(workload.context)
        return f"kubectl --kubeconfig {file} --context {context} {logs}"
    output = f"pulumi stack output workload_kubeconfig --show-secrets --stack {shlex.quote(pulumi.get_stack())}"
    save = f"{output} > workload.kubeconfig"
    return f"(umask 077; {save}) && kubectl --kubeconfig workload.kubeconfig {logs}"


def verdict_document(text: str) -> dict[str, Any]:
    """The verdict as an object, so that `pulumi stack output validation` is readable and `--json` nests."""
    document: dict[str, Any] = json.loads(text)
    return document


def _relative(file: Path) -> str:
    """As seen from the project, where `pulumi` is run."""
    return os.path.relpath(file, ROOT) if file.is_relative_to(ROOT) else str(file)


def _text(finding: Finding) -> str:
    """The finding without its first word: Pulumi's display writes `error: ` and `warning: ` itself."""
    return finding.line().split(": ", 1)[1]

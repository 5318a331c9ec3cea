"""The real vLLM on a CPU: it serves, speculates, stays on loopback, and counts as the fake engine does."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.log import Speculation
from engine.metrics import speculation_delta
from engine.speculative import SpeculativeConfig
from engine.sse import Usage
from engine.versions import EngineVersion
from sandbox.engines import real
from sandbox.engines.fake.drafting import Rules
from tests.sandbox.engines.fake import COPY, SEED, SPEC, Fake
from tests.sandbox.engines.reference import replay
from tests.sandbox.engines.vllm import vllm

# A start takes about a minute of processor time, more when others want it too; an install comes on top.
pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]

HOST = "127.79.0.1"
MODEL = "smollm2-135m-spec"
# The recipe's arguments.
ARGS = (
    f"--model={real.MODEL}",
    f"--served-model-name={MODEL}",
    "--max-model-len=2048",
    "--dtype=bfloat16",
    "--enforce-eager",
    "--max-num-seqs=8",
    "--no-enable-prefix-caching",
    SPEC,
)
REPEATING = "red, green, blue, " * 30


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fake]:
    with vllm(tmp_path_factory.mktemp("engine"), ARGS, HOST, MODEL) as found:
        yield found


def test_its_log_and_version_say_what_was_started(engine: Fake) -> None:
    log = engine.log()
    assert engine.get("/version") == (200, {"version": real.VERSION})
    assert (log.version, log.runner, log.ready, log.problems) == (real.VERSION, "V1", True, ())
    assert log.speculation == Speculation(
        "on", "ngram", 5, None, "speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5)"
    )
    assert log.speculative_args == SEED
    assert log.kv_cache is not None
    assert (log.kv_cache.device, log.kv_cache.tokens, log.kv_cache.length) == ("CPU", 46592, 2048)


def test_a_copy_heavy_completion_is_served_with_speculation(engine: Fake) -> None:
    before = engine.metrics()
    answer = engine.stream(COPY, max_tokens=60, stream_options={"include_usage": True})
    delta = speculation_delta(before, engine.metrics(), MODEL, k=5)
    assert (answer.problem, bool(answer.text.strip())) == (None, True)
    assert (delta.state, delta.problems, delta.inert) == ("measured", (), None)
    assert answer.usage == Usage(79, delta.generated or 0)


def test_the_offline_replay_gives_the_engines_own_numbers(engine: Fake) -> None:
    """The same replay holds the fake engine, so both count alike."""
    tokens = 60
    before = engine.metrics()
    ask = {"model": MODEL, "prompt": REPEATING, "max_tokens": tokens, "temperature": 0, "return_token_ids": True}
    status, body = engine.request("POST", "/v1/completions", ask)
    delta = speculation_delta(before, engine.metrics(), MODEL, k=5)
    assert status == 200
    choice = json.loads(body)["choices"][0]
    rules = Rules(
        SpeculativeConfig("ngram", 5, 2, 4), "V1", EngineVersion.of_text(real.VERSION, cpu=True).features, 2048
    )
    found = replay(choice["prompt_token_ids"], choice["token_ids"], rules, tokens)
    assert (delta.drafts, delta.draft_tokens) == (len(found), sum(drafted for drafted, _ in found))
    accepted = sum(right for _, right in found)
    assert delta.accepted is not None
    # The engine counts before it cuts at max_tokens, so its last step may have up to k more.
    assert accepted <= delta.accepted <= accepted + 5
    assert accepted > 0


def test_nothing_of_it_listens_beyond_loopback(engine: Fake) -> None:
    addresses = listening(engine.child.pid)
    assert f"{HOST}:8000" in addresses
    assert [address for address in addresses if not address.startswith("127.")] == []


def test_sigterm_ends_all_of_it(engine: Fake) -> None:
    pids = session(engine.child.pid)
    assert len(pids) >= 3, "server, engine core and worker"
    engine.child.send_signal(signal.SIGTERM)
    engine.child.wait(60)
    deadline = time.monotonic() + 30
    while (left := session(engine.child.pid)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == []


def session(leader: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def listening(leader: int) -> list[str]:
    """`address:port` of every TCP socket on which a process of the session listens."""
    inodes = set()
    for pid in session(leader):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(link.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{leader}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:  # LISTEN
                host, port = fields[1].split(":")
                found.append(f"{address(host)}:{int(port, 16)}")
    return found


def address(text: str) -> str:
    """An address as /proc/net writes it: words of four bytes in the machine's order. IPv6 stays as it is."""
    return ".".join(str(byte) for byte in bytes.fromhex(text)[::-1]) if len(text) == 8 else text

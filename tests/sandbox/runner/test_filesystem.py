import subprocess
from pathlib import Path

from sandbox.binaries import bubblewrap
from sandbox.runner.filesystem import Mount, arguments


def pairs(result: list[str], option: str) -> dict[str, str]:
    """Target to source of every use of an option that takes two words."""
    return {result[at + 2]: result[at + 1] for at, word in enumerate(result) if word == option}


def test_a_mount_point_that_the_machine_lacks_is_built_beside_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    missing = Path("/usr/share/sandbox-test-missing/models")
    result = arguments([Mount(tmp_path, missing)])
    built = [result[at + 1] for at, word in enumerate(result) if word == "--dir"]
    assert built == ["/usr", "/usr/share"]
    assert pairs(result, "--ro-bind")[str(missing)] == str(tmp_path)
    beside = pairs(result, "--ro-bind-try")
    assert "/usr/lib" in beside and "/usr" not in beside and "/etc" in beside
    assert not missing.exists()


def test_a_mount_point_that_the_machine_has_is_covered(tmp_path: Path) -> None:
    result = arguments([Mount(tmp_path, Path("/usr/share"), read_only=False)])
    assert "--dir" not in result
    assert pairs(result, "--bind") == {"/usr/share": str(tmp_path)}
    assert pairs(result, "--ro-bind-try")["/usr"] == "/usr"


def test_links_of_the_machine_are_followed(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/run")
    result = arguments([Mount(tmp_path, link / "secrets/token")])
    assert pairs(result, "--ro-bind") == {"/run/secrets/token": str(tmp_path)}


def test_state_is_hidden_and_the_program_stays_visible(tmp_path: Path) -> None:
    home, cache = tmp_path / "home", tmp_path / "home/cache"
    cache.mkdir(parents=True)
    result = arguments([], visible=[cache], hidden=[home])
    # tmp_path may lie below /tmp, which is fresh anyway.
    assert pairs(result, "--ro-bind") == {str(cache): str(cache)}
    assert "/tmp" in [result[at + 1] for at, word in enumerate(result) if word == "--tmpfs"]
    assert not any(source == str(home) for source in pairs(result, "--ro-bind-try").values())


def test_memory_is_fresh() -> None:
    assert Mount(None, Path("/dev/shm")).arguments() == ["--perms", "1777", "--tmpfs", "/dev/shm"]


def test_a_checkout_below_a_fresh_directory_may_hold_links_and_its_state_is_hidden_too(tmp_path: Path) -> None:
    checkout, environment, state = (
        tmp_path / "checkout",
        tmp_path / "elsewhere/environment",
        tmp_path / "checkout/state",
    )
    for folder in (checkout, environment, state):
        folder.mkdir(parents=True)
    (environment / "python").touch()
    (state / "key").touch()
    (checkout / ".venv").symlink_to(environment)
    options = arguments([], visible=[checkout, checkout / ".venv"], hidden=[state])
    argv = [str(bubblewrap()), *options, "ls", f"{checkout}/.venv", str(state)]
    listed = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (listed.stderr, listed.stdout.split()) == ("", [f"{checkout}/.venv:", "python", f"{state}:"])

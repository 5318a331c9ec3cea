"""Where replicas go, as a table of situations."""

from __future__ import annotations

import pytest

from sandbox.functions.model import Manifest
from sandbox.functions.scheduling import InvalidSelectorError, place
from tests.sandbox.functions.manifests import L4, MEMORY_20, cluster, engine, replica

NO_SCHEDULE = [{"key": "drain", "effect": "NoSchedule"}]
NO_EXECUTE = [{"key": "drain", "effect": "NoExecute"}]
TWO_GPUS = [{**L4, "count": 2}]


def placed(
    clusters: list[Manifest],
    wanted: int = 1,
    *,
    engines: list[Manifest] | None = None,
    own: tuple[Manifest, ...] = (),
    others: tuple[Manifest, ...] = (),
    **spec: object,
) -> list[tuple[str, int]]:
    found = place({"engines": engines or [engine()], **spec}, wanted, clusters, own, others)
    return [(placement.cluster, placement.index) for placement in found]


@pytest.mark.parametrize(
    ("why", "clusters", "kwargs", "expected"),
    [
        ("one node, one replica", [cluster()], {}, [("wl", 0)]),
        ("no more than the nodes", [cluster(nodes=1)], {"wanted": 2}, [("wl", 0)]),
        ("two on two nodes of one cluster", [cluster(nodes=2)], {"wanted": 2}, [("wl", 0), ("wl", 1)]),
        (
            "spread, ties by name",
            [cluster("b", nodes=2), cluster("a", nodes=2)],
            {"wanted": 3},
            [("a", 0), ("b", 0), ("a", 1)],
        ),
        ("a cluster that is not Ready gets nothing new", [cluster(ready=False)], {}, []),
        ("nor one without a gateway address", [cluster(address=None)], {}, []),
        ("a taint keeps new replicas away", [cluster(taints=NO_SCHEDULE)], {}, []),
        (
            "unless tolerated",
            [cluster(taints=NO_SCHEDULE)],
            {"tolerations": [{"key": "drain", "operator": "Exists"}]},
            [("wl", 0)],
        ),
        ("what others hold is not free", [cluster(nodes=1)], {"others": (replica("wl", 0, of="other"),)}, []),
        ("copies cost a node each", [cluster(nodes=2)], {"engines": [engine(copies=3)]}, []),
        ("a pod that uses one of two devices costs the node", [cluster(devices=TWO_GPUS)], {"wanted": 2}, [("wl", 0)]),
        ("two devices of one node", [cluster(devices=TWO_GPUS)], {"engines": [engine(count=2)]}, [("wl", 0)]),
        ("more devices than a node has", [cluster()], {"engines": [engine(count=2)]}, []),
        ("24Gi is more than an L4 has", [cluster()], {"engines": [engine(MEMORY_20.replace("20Gi", "24Gi"))]}, []),
        (
            "an unknown attribute is no match",
            [cluster()],
            {"engines": [engine('device.attributes["x.io"].y == 1')]},
            [],
        ),
        ("a result that is no boolean is no match", [cluster()], {"engines": [engine("1 + 1")]}, []),
        ("a device that is not claimed is not enough", [cluster(devices=[{**L4, "claim": "Synthetic"}])], {}, []),
    ],
)
def test_placement_follows_the_rules(
    why: str, clusters: list[Manifest], kwargs: dict[str, object], expected: list[tuple[str, int]]
) -> None:
    assert placed(clusters, **kwargs) == expected, why  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("why", "clusters", "own", "expected"),
    [
        ("it stays when a better place appears", [cluster("a"), cluster("b")], replica("b", 0), [("b", 0)]),
        ("it stays on a cluster that is not Ready", [cluster("b", ready=False)], replica("b", 0), [("b", 0)]),
        (
            "it stays on a cluster that takes no new ones",
            [cluster("b", taints=NO_SCHEDULE)],
            replica("b", 0),
            [("b", 0)],
        ),
        (
            "it moves when its cluster evicts",
            [cluster("a"), cluster("b", taints=NO_EXECUTE)],
            replica("b", 0),
            [("a", 0)],
        ),
        ("it moves when its cluster is gone", [cluster("a")], replica("b", 0), [("a", 0)]),
        ("its index is kept", [cluster("b", nodes=5)], replica("b", 3), [("b", 3)]),
    ],
)
def test_a_placed_replica_is_not_moved_without_need(
    why: str, clusters: list[Manifest], own: Manifest, expected: list[tuple[str, int]]
) -> None:
    assert placed(clusters, own=(own,)) == expected, why


def test_the_lowest_free_index_is_taken() -> None:
    assert placed([cluster(nodes=3)], 3, own=(replica("wl", 1),)) == [("wl", 1), ("wl", 0), ("wl", 2)]


def test_scaling_down_keeps_the_first() -> None:
    own = (replica("wl", 1), replica("wl", 0))
    assert placed([cluster(nodes=2)], 1, own=own) == [("wl", 0)]


@pytest.mark.parametrize("ready", [True, False])
def test_a_selector_that_does_not_compile_is_reported_and_not_taken_for_lack_of_room(ready: bool) -> None:
    with pytest.raises(InvalidSelectorError):
        placed([cluster(ready=ready)], engines=[engine("device.capacity[")])


def test_a_claim_names_class_count_and_selectors() -> None:
    (found,) = place({"engines": [engine()]}, 1, [cluster()], (), ())
    assert found.engines[0]["members"][0] == {
        "role": "Standalone",
        "nodePoolName": "gpu",
        "deviceRequests": [
            {"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 1, "selectors": [{"cel": MEMORY_20}]}
        ],
        "template": engine()["members"][0]["template"],
    }


def test_a_kept_replica_takes_over_new_arguments() -> None:
    changed = engine(args=["--max-model-len=4096"])
    (found,) = place({"engines": [changed]}, 1, [cluster()], (replica("wl", 0),), ())
    assert found.engines[0]["members"][0]["template"] == changed["members"][0]["template"]
    assert found.engines[0]["members"][0]["nodePoolName"] == "gpu"

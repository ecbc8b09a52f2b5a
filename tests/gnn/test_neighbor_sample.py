"""The op cpuaccel::neighbor_sample: what it samples, how evenly, and what it rejects."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import needs_plugin, off

from gnn._graphs import index_dtypes
from gnn._sampling import Csc, arguments, csc, hops_of, load_op, sample, slices

pytestmark = needs_plugin


@pytest.fixture(autouse=True)
def _op() -> None:
    load_op()


@given(data=st.data())
def test_a_sample_says_what_the_graph_says(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, 60))
    index = data.draw(st.sampled_from([torch.int32, torch.int64]))
    graph = csc(nodes, data.draw(st.sampled_from([0, 5, 300])), data.draw(st.integers(0, 9)), index)
    seeds = torch.tensor(data.draw(st.lists(st.integers(0, nodes - 1), max_size=8)), dtype=index)
    fan_out = data.draw(st.lists(st.sampled_from([-1, 0, 1, 2, 7, 100]), max_size=3))
    replace, disjoint = data.draw(st.booleans()), data.draw(st.booleans())
    got = sample(graph, seeds, fan_out, replace=replace, disjoint=disjoint)

    assert torch.equal(graph.row[got.edge].long(), got.node[got.src])
    ends = got.node[got.dst]
    assert bool((got.edge >= graph.colptr[ends]).all())
    assert bool((got.edge < graph.colptr[ends + 1]).all())
    assert got.node[: len(seeds)].tolist() == seeds.tolist()
    names = got.node.tolist()
    if disjoint:
        assert got.batch[: len(seeds)].tolist() == list(range(len(seeds)))
        assert torch.equal(got.batch[got.src], got.batch[got.dst])
        names = list(zip(names, got.batch.tolist(), strict=True))
    else:
        assert got.batch.numel() == 0
    assert len(set(names[len(seeds) :])) == len(names) - len(seeds)

    assert got.nodes_of_hop[0] == len(seeds)
    assert sum(got.nodes_of_hop) == len(got.node)
    assert sum(got.edges_of_hop) == len(got.edge)
    frontiers = slices(got.nodes_of_hop)
    for hop, of_hop in enumerate(slices(got.edges_of_hop)):
        counts = torch.bincount(got.dst[of_hop.start : of_hop.stop], minlength=len(got.node))
        for i, count in enumerate(counts.tolist()):
            degree = len(graph.neighbors(int(got.node[i])))
            wanted = degree if fan_out[hop] < 0 else min(degree, fan_out[hop])
            if replace and fan_out[hop] >= 0:
                wanted = fan_out[hop] if degree else 0
            assert count == (wanted if i in frontiers[hop] else 0)
        if not replace:
            pairs = torch.stack([got.edge, got.dst])[:, of_hop.start : of_hop.stop]
            assert pairs.unique(dim=1).shape[1] == len(of_hop)


@index_dtypes
@pytest.mark.parametrize("disjoint", [False, True])
def test_all_neighbors_are_the_subgraph_of_so_many_hops(index: torch.dtype, disjoint: bool) -> None:
    graph = csc(80, 240, index=index)
    seeds = [7] if disjoint else [3, 40, 0]
    got = sample(graph, torch.tensor(seeds), [-1, -1], disjoint=disjoint)
    expected = hops_of(graph, seeds, 2)
    for of_hop, nodes in zip(slices(got.nodes_of_hop), expected, strict=True):
        assert {int(got.node[i]) for i in of_hop} == nodes
    taken = sorted(expected[0] | expected[1])
    edges = [e for n in taken for e in range(int(graph.colptr[n]), int(graph.colptr[n + 1]))]
    assert sorted(got.edge.tolist()) == edges


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("degree", [7, 200])
def test_each_neighbor_is_as_likely(replace: bool, degree: int) -> None:
    graph = Csc(torch.tensor([0, degree, *[degree] * degree]), torch.arange(1, degree + 1))
    counts = torch.zeros(degree)
    draws, fan_out = 3000, 5 if degree < 10 else 90
    for seed in range(draws // 50):
        seeds = torch.zeros(50, dtype=torch.int64)
        got = sample(graph, seeds, [fan_out], seed, replace=replace)
        counts += torch.bincount(got.edge, minlength=degree)
    expected = draws * fan_out / degree
    # Without replacement the counts vary less than the test assumes.
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    # The upper 0.1 % quantile of the chi-square distribution, by Wilson and Hilferty.
    freedom = degree - 1
    limit = freedom * (1 - 2 / (9 * freedom) + 3.09 * (2 / (9 * freedom)) ** 0.5) ** 3
    assert chi_square < limit
    assert chi_square > 0


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("induced", [False, True])
def test_same_sample_on_any_number_of_threads(disjoint: bool, induced: bool) -> None:
    graph, seeds = csc(20_000, 300_000), torch.randperm(20_000)[:2000]
    found = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        found.append(sample(graph, seeds, [15, 10], 5, disjoint=disjoint, induced=induced))
    for other in found[1:]:
        for name, part in vars(found[0]).items():
            if isinstance(part, list):
                assert part == getattr(other, name)
            else:
                assert torch.equal(part, getattr(other, name))


def test_the_seed_decides() -> None:
    graph, seeds = csc(500, 9000), torch.arange(40)
    same, again, other = (sample(graph, seeds, [5, 5], seed) for seed in (1, 1, 2))
    assert torch.equal(same.edge, again.edge)
    assert not torch.equal(same.edge, other.edge)
    for extreme in (0, -1, 2**63 - 1, -(2**63)):
        assert sum(sample(graph, seeds, [5, 5], extreme).edges_of_hop) > 0


def test_samples_that_follow_are_independent() -> None:
    """A sample does not depend on what the thread cached from earlier ones."""
    large, small = csc(5000, 60_000), csc(30, 90)
    seeds = torch.arange(30)
    alone = sample(small, seeds, [2, 2], 3)
    sample(large, torch.arange(3000), [10, 10], 4)
    after = sample(small, seeds, [2, 2], 3)
    assert torch.equal(alone.node, after.node)
    assert torch.equal(alone.src, after.src)


@pytest.mark.parametrize("disjoint", [False, True])
def test_induced_has_all_edges_between_its_nodes(disjoint: bool) -> None:
    graph, seeds = csc(60, 500), torch.tensor([1, 20, 33])
    flat = sample(graph, seeds, [4, 3], 2, disjoint=disjoint)
    got = sample(graph, seeds, [4, 3], 2, disjoint=disjoint, induced=True)
    assert torch.equal(got.node, flat.node)
    assert got.nodes_of_hop == flat.nodes_of_hop
    assert got.edges_of_hop == []
    batch = got.batch.tolist() if disjoint else [0] * len(got.node)
    place = {pair: i for i, pair in enumerate(zip(batch, got.node.tolist(), strict=True))}
    expected = []
    for (tree, node), i in place.items():
        for e in range(int(graph.colptr[node]), int(graph.colptr[node + 1])):
            if (j := place.get((tree, int(graph.row[e])))) is not None:
                expected.append((j, i, e))
    edges = zip(got.src.tolist(), got.dst.tolist(), got.edge.tolist(), strict=True)
    assert sorted(edges) == sorted(expected)


def test_the_caller_s_tensors_may_have_any_layout() -> None:
    graph, seeds = csc(50, 400), torch.arange(20)
    expected = sample(graph, seeds[::2], [3])
    wide = Csc(
        torch.stack([graph.colptr, graph.colptr], 1)[:, 0],
        torch.stack([graph.row, graph.row], 1)[:, 1],
    )
    assert torch.equal(sample(wide, seeds[::2].contiguous(), [3]).edge, expected.edge)


def test_it_is_there_while_cpuaccel_is_off() -> None:
    graph, seeds = csc(50, 400), torch.arange(20)
    expected = sample(graph, seeds, [3, 3])
    with off():
        assert torch.equal(sample(graph, seeds, [3, 3]).edge, expected.edge)


_ARGUMENTS = (
    *("colptr", "row", "src_type", "dst_type", "num_nodes", "seed_type", "seeds"),
    *("fan_out", "hops", "seed"),
)


def _changed(**changes: Any) -> tuple[Any, ...]:
    graph = csc(50, 400)
    given = dict(zip(_ARGUMENTS, arguments(graph, torch.arange(5), [-1, 2]), strict=True))
    given.update(changes)
    return tuple(given.values())


def _colptr(place: int, number: int) -> list[torch.Tensor]:
    colptr = csc(50, 400).colptr.clone()
    colptr[place] = number
    return [colptr]


def _row(number: int) -> list[torch.Tensor]:
    row = csc(50, 400).row.clone()
    row[3] = number
    return [row]


_REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "fan_out below -1": ({"fan_out": [5, -2]}, ValueError, "expected fan_out .* but got -2"),
    "huge fan_out": ({"fan_out": [5, 2**31]}, ValueError, "fan_out .* below 2\\^31.* 2147483648"),
    "too few fan_out": ({"fan_out": [5]}, ValueError, "expected fan_out of 2 .* but got 1"),
    "hops": ({"hops": -1, "fan_out": []}, ValueError, "expected hops of at least 0, but got -1"),
    "negative seed": ({"seeds": [torch.tensor([1, -1])]}, IndexError, "seeds .* -1 at position 1"),
    "seed beyond": ({"seeds": [torch.tensor([50])]}, IndexError, "below 50, but got 50"),
    "seeds of floats": ({"seeds": [torch.ones(2)]}, ValueError, "seeds .* int32 or int64"),
    "seeds in a table": ({"seeds": [torch.ones(2, 2).long()]}, ValueError, "one-dimensional"),
    "seed type": ({"seed_type": [1]}, ValueError, "seed_type .* below 1, .* got 1"),
    "types of seeds": ({"seed_type": []}, ValueError, "seed_type of 1 .* but got 0"),
    "a type twice": (
        {"seed_type": [0, 0], "seeds": [torch.arange(2), torch.arange(3)]},
        ValueError,
        "each type once",
    ),
    "colptr goes down": ({"colptr": _colptr(2, 0)}, ValueError, "colptr .* ascend from 0 to 400"),
    "colptr is negative": ({"colptr": _colptr(0, -3)}, ValueError, "got -3 .* at node 0"),
    "colptr is huge": ({"colptr": _colptr(3, 2**62)}, ValueError, f"then {2**62} at node 2"),
    "colptr is short": ({"colptr": [torch.zeros(9).long()]}, ValueError, "colptr of 50 \\+ 1"),
    "no colptr": ({"colptr": [torch.zeros(0).long()]}, ValueError, "but got 0"),
    "row beyond": ({"row": _row(50)}, IndexError, "row .* below 50, but got 50 at edge 3"),
    "row negative": ({"row": _row(-(2**63))}, IndexError, "row .* at edge 3"),
    "row of int32": ({"row": [csc(50, 400).row.int()]}, ValueError, "of one type, .* Long and Int"),
    "nodes": ({"num_nodes": [-1]}, ValueError, "num_nodes of at least 0, but got -1"),
    "types": ({"src_type": [1]}, ValueError, "src_type .* below 1, .* got 1"),
    "row is missing": ({"row": []}, ValueError, "expected row of 1 .* but got 0"),
}


@pytest.mark.parametrize("case", _REFUSED)
@pytest.mark.parametrize("threads", [1, 2])
def test_rejected_arguments(case: str, threads: int) -> None:
    torch.set_num_threads(threads)
    changes, error, message = _REFUSED[case]
    with pytest.raises(error, match=message):
        torch.ops.cpuaccel.neighbor_sample(*_changed(**changes))


def test_disjoint_samples_of_too_many_nodes() -> None:
    nodes = 2**62
    given = ([], [], [], [], [nodes], [0], [torch.arange(5)], [], 0, 0)
    with pytest.raises(ValueError, match=r"2\^63 seeds times nodes"):
        torch.ops.cpuaccel.neighbor_sample(*given, disjoint=True)
    assert torch.ops.cpuaccel.neighbor_sample(*given)[0][0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("flags", [(), (True, True, False), (False, False, True)])
def test_opcheck(flags: tuple[bool, ...]) -> None:
    given = (*arguments(csc(30, 200), torch.arange(5), [3, 2]), *flags)
    torch.library.opcheck(torch.ops.cpuaccel.neighbor_sample.default, given)

"""NCCL and cuBLAS one after the other on the GPUs of a host, the other side of `xtask bench ranks`.

One process for each GPU. For each case, captured graphs of the collective, of the product, and of both are replayed in turn, on
normal numbers in bf16; the time of a graph is the median over its replays, of the slowest rank. The product is cuBLAS's own choice
and each of the eight algorithms that cuBLASLt offers. The two that are the fastest alone, on all GPUs at once, are then measured
with the collective. Prints one JSON object per line.
"""

import ctypes
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

ROUNDS = 9
CALLS = 4
ALGORITHMS = 8
WORKSPACE = 64 << 20


class Algorithms:
    """The algorithms of cuBLASLt for C = A B^T of bf16, all of them row-major: A is (m, k), B is (n, k)."""

    class Found(ctypes.Structure):
        """`cublasLtMatmulHeuristicResult_t`."""

        _fields_ = [
            ("algorithm", ctypes.c_uint64 * 8),
            ("workspace", ctypes.c_size_t),
            ("state", ctypes.c_int),
            ("waves", ctypes.c_float),
            ("reserved", ctypes.c_int * 4),
        ]

    def __init__(self, m, n, k):
        # The library that torch has loaded: a product calls it first.
        with open("/proc/self/maps") as maps:
            names = {line.split()[-1] for line in maps if "libcublasLt.so" in line}
        self.library = ctypes.CDLL(min(names))
        self.handle = self.made("cublasLtCreate")
        f32, of_f32, bf16 = 0, 68, 14
        self.product = self.made("cublasLtMatmulDescCreate", ctypes.c_int(of_f32), ctypes.c_int(f32))
        # cuBLASLt is column-major, so that C^T = B A^T is computed: B's memory is a (k, n) matrix, transposed.
        transposed = ctypes.c_int32(1)
        first_is_transposed = ctypes.c_int(3)
        self.call("cublasLtMatmulDescSetAttribute", self.product, first_is_transposed, ctypes.byref(transposed), ctypes.c_size_t(4))
        matrices = [(k, n, k), (k, m, k), (n, m, n)]
        self.layouts = [self.layout(bf16, *matrix) for matrix in matrices]
        preference = self.made("cublasLtMatmulPreferenceCreate")
        size = ctypes.c_uint64(WORKSPACE)
        most_workspace = ctypes.c_int(1)
        self.call("cublasLtMatmulPreferenceSetAttribute", preference, most_workspace, ctypes.byref(size), ctypes.c_size_t(8))
        found, count = (self.Found * ALGORITHMS)(), ctypes.c_int()
        b, a, c = self.layouts
        wanted = ctypes.c_int(ALGORITHMS)
        self.call(
            "cublasLtMatmulAlgoGetHeuristic", self.handle, self.product, b, a, c, c, preference, wanted, found, ctypes.byref(count)
        )
        self.found = [one for one in found[: count.value] if one.state == 0]
        self.workspace = torch.empty(WORKSPACE, device="cuda", dtype=torch.uint8)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: status {status}")

    def made(self, name, *arguments):
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    def layout(self, element, rows, columns, pitch):
        sizes = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(pitch))
        return self.made("cublasLtMatrixLayoutCreate", ctypes.c_int(element), *sizes)

    def multiply(self, algorithm, a, b, c):
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        of_b, of_a, of_c = self.layouts
        at = [ctypes.c_void_p(x.data_ptr()) for x in (b, a, c)]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.call(
            "cublasLtMatmul", self.handle, self.product, ctypes.byref(one), at[0], of_b, at[1], of_a, ctypes.byref(zero), at[2],
            of_c, at[2], of_c, ctypes.byref(self.found[algorithm].algorithm), ctypes.c_void_p(self.workspace.data_ptr()),
            ctypes.c_size_t(WORKSPACE), stream,
        )


def cases(ranks):
    gathers = [(8192, 57344, 8192), (2048, 57344, 8192), (8192, 28672, 4096), (8192, 2560 * ranks, 8192)]
    scatters = [(8192, 8192, 28672), (2048, 8192, 28672), (8192, 4096, 14336), (8192, 8192, 2048 * ranks)]
    return [("gather", *sizes) for sizes in gathers] + [("scatter", *sizes) for sizes in scatters]


def median(values):
    return sorted(values)[len(values) // 2]


def captured(call):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call(0)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(CALLS):
            call(i)
    return graph


def replayed(graph):
    dist.barrier()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    took = torch.tensor([1e3 * start.elapsed_time(end) / CALLS], device="cuda")
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()


def measure(rank, ranks, kind, m, n, k):
    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    sets = 2
    if kind == "gather":
        parts = [random(m // ranks, k) for _ in range(sets)]
        b = [random(n // ranks, k) for _ in range(sets)]
        a = [random(m, k) for _ in range(sets)]
        c = [random(m, n // ranks) for _ in range(sets)]

        def collective(i):
            dist.all_gather_into_tensor(a[i % sets], parts[i % sets])

        def both(product):
            return lambda i: (collective(i), product(i))
    else:
        a = [random(m, k // ranks) for _ in range(sets)]
        b = [random(n, k // ranks) for _ in range(sets)]
        c = [random(m, n) for _ in range(sets)]
        sums = [random(m // ranks, n) for _ in range(sets)]

        def collective(i):
            dist.reduce_scatter_tensor(sums[i % sets], c[i % sets])

        def both(product):
            return lambda i: (product(i), collective(i))

    def usual(i):
        torch.mm(a[i % sets], b[i % sets].t(), out=c[i % sets])

    usual(0)
    expected = c[0].float()
    algorithms = Algorithms(*c[0].shape, a[0].shape[1])
    products = [usual]
    for number in range(len(algorithms.found)):
        products.append(lambda i, number=number: algorithms.multiply(number, a[i % sets], b[i % sets], c[i % sets]))
    for product in products[1:]:
        c[0].zero_()
        product(0)
        error = (c[0].float() - expected).abs().max() / expected.abs().max()
        if error > 1e-2:
            raise RuntimeError(f"an algorithm of cuBLASLt differs by {error.item():.3g} of the largest element")

    def medians(calls):
        graphs = [captured(call) for call in calls]
        times = [[] for _ in graphs]
        for _ in range(ROUNDS):
            for graph, all_times in zip(graphs, times):
                all_times.append(replayed(graph))
        return [round(median(of), 1) for of in times]

    # All ranks have the same times, since each is that of the slowest rank, and so take the same algorithms.
    alone = medians([collective, *products])
    of_algorithms = alone[2:]
    fastest = sorted(range(len(of_algorithms)), key=lambda number: of_algorithms[number])[:2]
    together = medians([both(usual), *(both(products[1 + number]) for number in fastest)])
    if rank == 0:
        line = {"kind": kind, "m": m, "n": n, "k": k, "ranks": ranks}
        line |= {"collective_us": alone[0], "product_us": alone[1], "algorithms_us": of_algorithms}
        line |= {"both_us": together[0], "both_by_algorithms_us": dict(zip(map(str, fastest), together[1:]))}
        print(json.dumps(line), flush=True)


def work(rank, ranks, until):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    if rank == 0:
        version = ".".join(map(str, torch.cuda.nccl.version()))
        print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "nccl": version}), flush=True)
    for case in cases(ranks):
        # All ranks must agree on whether there is time.
        late = torch.tensor([float(time.time() > until)], device="cuda")
        dist.all_reduce(late, op=dist.ReduceOp.MAX)
        if late.item():
            break
        measure(rank, ranks, *case)
        torch.cuda.empty_cache()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29517")
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0
    count = torch.cuda.device_count()
    mp.spawn(work, args=(count, time.time() + seconds), nprocs=count)

"""NCCL and cuBLAS one after the other on the GPUs of a host, the other side of `xtask bench ranks`.

One process for each GPU. For each case, captured graphs of the collective, of the product, and of both are replayed in turn, on
normal numbers in bf16; the time of a graph is the median over its replays, of the slowest rank. Prints one JSON object a line.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

ROUNDS = 9
CALLS = 4


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
        whole = [random(m, k) for _ in range(sets)]
        c = [random(m, n // ranks) for _ in range(sets)]

        def collective(i):
            dist.all_gather_into_tensor(whole[i % sets], parts[i % sets])

        def product(i):
            torch.mm(whole[i % sets], b[i % sets].t(), out=c[i % sets])

        def both(i):
            collective(i)
            product(i)
    else:
        a = [random(m, k // ranks) for _ in range(sets)]
        b = [random(n, k // ranks) for _ in range(sets)]
        term = [random(m, n) for _ in range(sets)]
        c = [random(m // ranks, n) for _ in range(sets)]

        def product(i):
            torch.mm(a[i % sets], b[i % sets].t(), out=term[i % sets])

        def collective(i):
            dist.reduce_scatter_tensor(c[i % sets], term[i % sets])

        def both(i):
            product(i)
            collective(i)

    graphs = [captured(call) for call in (collective, product, both)]
    times = [[], [], []]
    for _ in range(ROUNDS):
        for graph, all_times in zip(graphs, times):
            all_times.append(replayed(graph))
    found = [median(of) for of in times]
    if rank == 0:
        names = ("collective_us", "product_us", "both_us")
        line = {"kind": kind, "m": m, "n": n, "k": k, "ranks": ranks}
        print(json.dumps(line | dict(zip(names, (round(x, 1) for x in found)))), flush=True)


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

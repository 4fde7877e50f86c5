"""PyTorch on the same device in the same hour: copies, transposes, matrix products. Prints JSON, one group a line.

Run beside `xtask bench`: contenders take turns, events around every run, medians. `beside_torch.py rows` runs the functions of
rows instead, eager and compiled, beside `xtask bench rows`; `beside_torch.py reduce` runs reductions, selections and cumulative sums beside
`xtask bench reduce`.
"""

import json
import sys

import torch


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def take_turns(contenders, rounds=11):
    for run in contenders.values():
        run()
    torch.cuda.synchronize()
    times = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end))
    return {name: median(values) for name, values in times.items()}


def say(title, unit, work, times):
    rows = [{"name": name, "value": round(work / ms / 1e9, 4)} for name, ms in times.items()]
    print(json.dumps({"title": title, "unit": unit, "rows": rows}), flush=True)


def transposes(dtype, name, side=32768):
    a = torch.randn(side, side, device="cuda").to(dtype)
    b = torch.empty_like(a)
    times = take_turns({"torch copy_": lambda: b.copy_(a), "torch copy_ of t()": lambda: b.copy_(a.t())})
    say(f"{side}x{side} of {name}", "TB/s", 2 * a.numel() * a.element_size(), times)


def product(m, n, k):
    a, b = (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    times = take_turns({"torch matmul": lambda: torch.matmul(a, b.t(), out=c)}, 15)
    say(f"{m}x{n}x{k} of bf16", "TFLOP/s", 2 * m * n * k, times)


def rows(function, dtype, name, columns, elements=1 << 26, residual=False):
    """A function of rows, eager and compiled; with a residual, the sum is stored too."""
    functional = torch.nn.functional
    count = elements // columns
    x = torch.randn(count, columns, device="cuda").to(dtype)
    r = torch.randn(count, columns, device="cuda").to(dtype) if residual else None
    weight, bias = (torch.randn(columns, device="cuda").to(dtype) for _ in range(2))
    of = {
        "softmax": lambda x: functional.softmax(x, -1),
        "log_softmax": lambda x: functional.log_softmax(x, -1),
        "RMSNorm": lambda x: functional.rms_norm(x, (columns,), weight, 1e-5),
        "layer norm": lambda x: functional.layer_norm(x, (columns,), weight, bias, 1e-5),
    }[function]

    def call():
        if not residual:
            return of(x)
        total = x + r
        return total, of(total)

    contenders = {"torch": call}
    torch.compiler.reset()
    compiled = torch.compile(call)
    try:
        compiled()
        contenders["torch.compile"] = compiled
    except Exception as error:  # A machine without a compiler still has the eager kernels.
        print(f"torch.compile: {error}"[:300], file=sys.stderr)
    for run in contenders.values():
        run(), run()
    work = (4 if residual else 2) * x.numel() * x.element_size()
    title = f"{function} {name}, {count} rows of {columns}" + (", with a residual" if residual else "")
    say(title, "TB/s", work, take_turns(contenders))


def all_rows():
    for columns in (33, 256, 1000, 4096, 4097, 16384, 65536, 131072, 1 << 20):
        rows("softmax", torch.float32, "f32", columns)
        rows("softmax", torch.bfloat16, "bf16", columns)
    for columns in (1000, 4096, 5120, 16384):
        rows("log_softmax", torch.bfloat16, "bf16", columns)
        for function in ("RMSNorm", "layer norm"):
            rows(function, torch.bfloat16, "bf16", columns)
            rows(function, torch.bfloat16, "bf16", columns, residual=True)


def reduced(function, dtype, name, extents, modes):
    """A reduction or a cumulative sum; the operands rotate over several times the second-level cache."""
    size = dtype.itemsize
    for extent in extents:
        size *= extent
    inputs = [torch.randn(extents, device="cuda").to(dtype) for _ in range(max((512 << 20) // size, 2))]
    of = {
        "sum": lambda x: torch.sum(x, modes),
        "max": lambda x: torch.amax(x, modes),
        "norm": lambda x: torch.linalg.vector_norm(x, dim=modes),
        "arg-max": lambda x: torch.argmax(x, modes[0]),
        "cumulative sum": lambda x: torch.cumsum(x, modes[0]),
    }[function]
    state = {"at": 0}

    def call():
        for _ in range(8):
            state["at"] = (state["at"] + 1) % len(inputs)
            of(inputs[state["at"]])

    work = 8 * size * (2 if function == "cumulative sum" else 1)
    say(f"{function} {name} of {list(extents)} along {list(modes)}", "TB/s", work, take_turns({"torch": call}))


SELECTIONS = (
    ((65536, 128), 1, 8), ((8192, 4096), 1, 50), ((4096, 10000), 1, 50), ((64, 128256), 1, 64), ((8, 1 << 20), 1, 2048),
    ((1, 1 << 24), 1, 100), ((4096, 4096), 0, 8),
)


def selected(dtype, name, extents, mode, k):
    """The k largest elements, sorted; the operands rotate over several times the second-level cache."""
    size = dtype.itemsize
    for extent in extents:
        size *= extent
    inputs = [torch.randn(extents, device="cuda").to(dtype) for _ in range(max((512 << 20) // size, 2))]
    state = {"at": 0}

    def call():
        for _ in range(8):
            state["at"] = (state["at"] + 1) % len(inputs)
            torch.topk(inputs[state["at"]], k, mode)

    say(f"top-{k} {name} of {list(extents)} along {mode}", "TB/s", 8 * size, take_turns({"torch": call}))


def all_reductions():
    pairs = ((torch.bfloat16, "bf16"), (torch.float32, "f32"))
    cases = (
        ((8192, 4096), (1,)), ((262144, 128), (1,)), ((8191, 4097), (1,)), ((8192, 4096), (0,)), ((524288, 64), (0,)),
        ((64, 128, 4096), (1,)), ((64, 128, 4096), (0, 2)), ((8192, 4096), (0, 1)), ((32768, 4096), (1,)),
        ((32768, 4096), (0,)),
    )
    for extents, modes in cases:
        for dtype, name in pairs:
            reduced("sum", dtype, name, extents, modes)
    for at in (0, 3, 5, 7):
        reduced("max", torch.bfloat16, "bf16", *cases[at])
        reduced("norm", torch.float32, "f32", *cases[at])
    for at in (0, 3, 5):
        for dtype, name in pairs:
            reduced("arg-max", dtype, name, *cases[at])
    for extents, mode, k in SELECTIONS:
        for dtype, name in pairs:
            selected(dtype, name, extents, mode, k)
    for extents, mode in (((8192, 4096), 1), ((32, 1 << 20), 1), ((8191, 4097), 1), ((8192, 4096), 0), ((64, 128, 4096), 1)):
        for dtype, name in pairs:
            reduced("cumulative sum", dtype, name, extents, (mode,))


LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "s8": 127.0}
TYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2, "s8": torch.int8,
}


def quantised(x, scale, to):
    """Numbers over a scale, clamped, in the type `to`; integers are rounded."""
    x = (x.float() / scale).clamp(-LARGEST[to], LARGEST[to])
    return (x.round() if to == "s8" else x).to(TYPES[to])


def ways_of(case):
    """The functions of a case by name, and what makes the operands of one call."""
    functional = torch.nn.functional
    kind, dtype, extents = case["kind"], TYPES[case["type"]], case["extents"]
    modes = case.get("modes", [])
    random = lambda *extents: torch.randn(*extents, device="cuda").to(dtype)
    if kind in ("softmax", "log-softmax", "RMSNorm", "layer norm"):
        columns = extents[modes[0]]
        weight, bias = random(columns), random(columns)
        last = lambda x: x.movedim(modes[0], -1)
        of = {
            "softmax": lambda x: functional.softmax(x, modes[0]),
            "log-softmax": lambda x: functional.log_softmax(x, modes[0]),
            "RMSNorm": lambda x: functional.rms_norm(last(x), (columns,), weight, 1e-5).movedim(-1, modes[0]),
            "layer norm": lambda x: functional.layer_norm(last(x), (columns,), weight, bias, 1e-5).movedim(-1, modes[0]),
        }[kind]
        if not case.get("residual"):
            return {"": of}, lambda: (random(*extents),)

        def with_sum(x, r):
            total = x + r
            return total, of(total)

        return {"": with_sum}, lambda: (random(*extents), random(*extents))
    if kind == "add":
        return {"": lambda a, b: a + b}, lambda: (random(*extents), random(*extents))
    if kind == "add of a row":
        row = random(extents[1])
        return {"": lambda a: a + row}, lambda: (random(*extents),)
    if kind == "gelu":
        return {"": lambda x: functional.gelu(x)}, lambda: (random(*extents),)
    if kind == "gather":
        rows = extents[0]
        index = lambda: torch.randperm(rows, device="cuda") if case["once"] else torch.randint(rows, (rows,), device="cuda")
        return {"": lambda table, index: functional.embedding(index, table)}, lambda: (random(*extents), index().int())
    if kind == "rotary embedding":
        sequence, _, features = extents
        angle = torch.randn(sequence, 1, features // 2, device="cuda")
        cos, sin = angle.cos(), angle.sin()
        if case["halves"]:
            def rotate(x):
                a, b = x.float().chunk(2, -1)
                return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(dtype)
        else:
            def rotate(x):
                a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
                return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2).to(dtype)
        return {"": rotate}, lambda: (random(*extents),)
    if kind == "quantisation of a tensor":
        to = case["to"]

        def computed(x):
            scale = x.abs().amax().float() / LARGEST[to]
            return quantised(x, scale, to), scale

        given = torch.tensor(0.5, device="cuda")
        return {" by a given scale": lambda x: quantised(x, given, to), " by its own scale": computed}, lambda: (random(*extents),)
    if kind == "quantisation of blocks":
        to, block = case["to"], case["block"]

        def blocks(x):
            x = x.unflatten(-1, (-1, block))
            scale = x.abs().amax(-1, keepdim=True).float() / LARGEST[to]
            return quantised(x, scale, to).flatten(-2), scale

        return {"": blocks}, lambda: (random(*extents),)
    of = {
        "sum": lambda x: torch.sum(x, modes),
        "mean": lambda x: torch.mean(x, modes),
        "max": lambda x: torch.amax(x, modes),
        "min": lambda x: torch.amin(x, modes),
        "norm": lambda x: torch.linalg.vector_norm(x, dim=modes),
        "arg-max": lambda x: torch.argmax(x, modes[0]),
        "cumulative sum": lambda x: torch.cumsum(x, modes[0], dtype=dtype),
        "top-k": lambda x: torch.topk(x, case["k"], modes[0]),
    }[kind]
    return {"": of}, lambda: (random(*extents),)


class Served:
    """The contenders of one case: graphs of eight runs each, on operands that rotate over 512 MB."""

    RUNS = 8

    def __init__(self, case):
        torch.compiler.reset()
        ways, operands = ways_of(case)
        first = operands()
        size = sum(x.numel() * x.element_size() for x in first)
        sets = [first] + [operands() for _ in range(max((512 << 20) // size, 2) - 1)]
        self.graphs, self.at = {}, {}
        for name, run in ways.items():
            for how in ("torch", "torch.compile"):
                try:
                    call = run if how == "torch" else torch.compile(run, dynamic=False)
                    self.graphs[how + name] = self.captured(call, sets)
                except Exception as error:  # A machine without a compiler still has the eager kernels.
                    print(f"{how}{name}: {error}"[:300], file=sys.stderr)

    def captured(self, call, sets):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                call(*sets[0])
        stream.synchronize()
        graphs = []
        # Each graph begins where the last one ends.
        for first in range(min(len(sets), 2)):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                kept = [call(*sets[(first * self.RUNS + i) % len(sets)]) for i in range(self.RUNS)]
            graphs.append((graph, kept))
        return graphs

    def sample(self, name, batch):
        turn = self.at[name] = self.at.get(name, 0) + 1
        graph, _ = self.graphs[name][turn % len(self.graphs[name])]
        graph.replay()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        replays = max(batch // self.RUNS, 1)
        start.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / (replays * self.RUNS)


def serve():
    """Answers one question per line with one line, until there are no more."""
    served = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if "hello" in question:
                answer = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
            elif "prepare" in question:
                served = None
                torch.cuda.empty_cache()
                served = Served(question["prepare"])
                answer = {"names": list(served.graphs)}
            else:
                answer = {"us": served.sample(question["sample"], question["batch"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__" and sys.argv[1:] == ["serve"]:
    serve()
elif __name__ == "__main__" and sys.argv[1:] == ["rows"]:
    all_rows()
elif __name__ == "__main__" and sys.argv[1:] == ["reduce"]:
    all_reductions()
elif __name__ == "__main__":
    bytes_ = torch.randint(0, 255, (2 << 30,), device="cuda", dtype=torch.uint8)
    to = torch.empty_like(bytes_)
    say("2 GiB", "TB/s", 2 * bytes_.numel(), take_turns({"torch copy_": lambda: to.copy_(bytes_)}))
    del bytes_, to
    transposes(torch.bfloat16, "bf16")
    transposes(torch.float32, "f32")
    for shape in ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 14336, 4096)):
        product(*shape)

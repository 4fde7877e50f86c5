"""Our attention kernels beside cuDNN through PyTorch, interleaved in one process. Prints JSON, one shape a line.

`xtask bench attention --export FOLDER` writes the kernels as PTX and `manifest.json`, which says how they are launched.
Run: python attention_beside_cudnn.py FOLDER [--seconds N] [--shapes FILE] [--tokens 1] [--usual 1], or
python attention_beside_cudnn.py --drawn FOLDER [--out FILE] [--seconds N] [--from N]: the problems that
`xtask bench attention --random N --seed S --export FOLDER` drew, beside cuDNN and PyTorch's flash attention where these take
them. It writes one problem a line; `xtask bench attention --plot FILE --svg FOLDER` draws what FILE has. Or
python attention_beside_cudnn.py --decode [FOLDER]: cuDNN in a step of decoding, in bytes of Q, K, V and O a second; alone, or
with the kernels of `decode.json` of such a folder. Or
python attention_beside_cudnn.py --candidates FOLDER: defaults and candidates for them beside cuDNN (`candidates.json`).

With `--usual 1` only the plans that a call takes are measured. With `--tokens 1` the tensors lie token by token, all heads of each, and not head by head.

A shape is `width batch heads queries keys mask`, for example `128 4 32 4096 4096 causal`. Causal work counts half.
"""

import ctypes
import json
import math
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

os.environ["CUDA_CACHE_DISABLE"] = "1"

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

driver = ctypes.CDLL("libcuda.so.1")
SHARED_BYTES, LOCAL_BYTES, REGISTERS = 8, 3, 4


def check(code, what):
    if code:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{what}: {code} {text.value}")


def tensor_map(tensor, box, swizzle):
    """A map of (batch, head, sequence, width), the last mode contiguous."""
    batch, heads, length, width = tensor.shape
    raw = (ctypes.c_ubyte * 192)()
    address = (ctypes.addressof(raw) + 63) // 64 * 64
    dims = (ctypes.c_uint64 * 4)(width, length, heads, batch)
    strides = (ctypes.c_uint64 * 3)(*(2 * tensor.stride(mode) for mode in (2, 1, 0)))
    box = (ctypes.c_uint32 * 4)(*box)
    ones = (ctypes.c_uint32 * 4)(1, 1, 1, 1)
    dtype = 9 if tensor.dtype == torch.bfloat16 else 6
    pointer = ctypes.c_void_p(tensor.data_ptr())
    code = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(address), dtype, 4, pointer, dims, strides, box, ones, 0, swizzle, 2, 0
    )
    check(code, "cuTensorMapEncodeTiled")
    return raw, address


class Kernel:
    def __init__(self, folder, entry, context):
        self.entry = entry
        check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")
        with open(os.path.join(folder, entry["ptx"]), "rb") as file:
            source = file.read() + b"\0"
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        start = time.perf_counter()
        check(driver.cuModuleLoadData(ctypes.byref(module), source), "cuModuleLoadData")
        self.milliseconds = 1e3 * (time.perf_counter() - start)
        name = entry["entry"].encode()
        check(driver.cuModuleGetFunction(ctypes.byref(self.function), module, name), "cuModuleGetFunction")
        check(driver.cuFuncSetAttribute(self.function, SHARED_BYTES, entry["shared"]), "cuFuncSetAttribute")
        self.registers, self.local = self.attribute(REGISTERS), self.attribute(LOCAL_BYTES)

    def attribute(self, number):
        value = ctypes.c_int()
        check(driver.cuFuncGetAttribute(ctypes.byref(value), number, self.function), "cuFuncGetAttribute")
        return value.value

    def call(self, q, k, v, o, persistent):
        """A launch of these tensors, to be repeated."""
        batch, heads, queries, width = q.shape
        keys, of_keys = k.shape[2], k.shape[1]
        maps = [tensor_map(t, *m) for t, m in zip((q, k, v, o), self.entry["maps"])]
        numbers = [ctypes.c_uint32(n) for n in (queries, keys, heads, batch, heads // of_keys)]
        numbers.append(ctypes.c_float(math.log2(math.e) / math.sqrt(width)))
        pointers = [address for _, address in maps] + [ctypes.addressof(n) for n in numbers]
        arguments = (ctypes.c_void_p * len(pointers))(*pointers)
        tiles = -(-queries // self.entry["queries"])
        if self.entry["pairs"]:
            tiles = -(-tiles // 2)
        # The kernel requires its clusters: the launch says only how many blocks there are.
        cluster = self.entry["cluster"]
        items = -(-tiles // cluster) * heads * batch
        at_once = torch.cuda.get_device_properties(0).multi_processor_count // cluster
        blocks = cluster * (min(items, at_once) if persistent else items)
        stream = torch.cuda.current_stream().cuda_stream

        def run(_kept=(maps, numbers)):
            code = driver.cuLaunchKernel(
                self.function, blocks, 1, 1, self.entry["threads"], 1, 1, self.entry["shared"],
                ctypes.c_void_p(stream), arguments, None,
            )
            check(code, "cuLaunchKernel")

        return run


def reference(q, k, v, rows, head, causal):
    """The rows of a head in double precision."""
    group = q.shape[1] // k.shape[1]
    qs, ks, vs = q[0, head, rows].double(), k[0, head // group].double(), v[0, head // group].double()
    scores = qs @ ks.t() / math.sqrt(q.shape[3])
    if causal:
        places = torch.arange(q.shape[2], device="cuda")[rows] + k.shape[2] - q.shape[2]
        scores.masked_fill_(torch.arange(k.shape[2], device="cuda")[None] > places[:, None], -math.inf)
    return torch.softmax(scores, -1) @ vs


def error(found, q, k, v, causal):
    worst = 0.0
    last = q.shape[2]
    for head, rows in ((0, slice(0, 200)), (q.shape[1] - 1, slice(max(0, last - 200), last))):
        right = reference(q, k, v, rows, head, causal)
        worst = max(worst, ((found[0, head, rows].double() - right).norm() / right.norm()).item())
    return worst


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def take_turns(contenders, rounds, calls):
    times = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            run()
            start.record()
            for _ in range(calls):
                run()
            end.record()
            end.synchronize()
            if turn:
                times[name].append(start.elapsed_time(end) / calls)
    return {name: median(of) for name, of in times.items()}


def drawn(by_tokens, batch, heads, length, width):
    """Normal numbers of (batch, head, sequence, width)."""
    if by_tokens:
        return torch.randn(batch, length, heads, width, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    return torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16)


def measure(shape, kernels, rounds, by_tokens, usual):
    width, batch, heads, queries, keys, mask = shape
    causal = mask == "causal"
    q = drawn(by_tokens, batch, heads, queries, width)
    k, v = (drawn(by_tokens, batch, heads, keys, width) for _ in range(2))

    def cudnn():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    expected = cudnn()
    row = {"shape": shape, "error": {"cudnn": error(expected, q, k, v, causal)}}
    contenders = {"cudnn": cudnn}
    for name, kernel in kernels.items():
        entry = kernel.entry
        if entry["width"] != width or entry["causal"] != causal:
            continue
        # A call's plan is the first of its shape, and of two grids the first one.
        is_usual = [batch, heads, queries, keys] in entry["usual"]
        if usual and not is_usual:
            continue
        for persistent in entry["grids"][:1] if usual else entry["grids"]:
            o = torch.full_like(q, math.nan)
            run = kernel.call(q, k, v, o, persistent)
            label = name if persistent else name + " one tile"
            try:
                run()
                torch.cuda.synchronize()
            except RuntimeError as failure:
                row["error"][label] = str(failure)
                print(json.dumps(row), flush=True)
                raise
            own = error(o, q, k, v, causal)
            apart = ((o.float() - expected.float()).norm() / expected.float().norm()).item()
            row["error"][label] = own
            if own < 5e-3 and apart < 5e-3:
                contenders[label] = run
            else:
                row["error"][label] = f"WRONG {own} {apart}"
    work = 4 * batch * heads * queries * keys * width / (2 if causal else 1)
    times = take_turns(contenders, rounds, 4 if work < 3e11 else 2)
    row["tflops"] = {name: round(work / ms / 1e9, 1) for name, ms in times.items()}
    row["ratio"] = {name: round(times["cudnn"] / ms, 3) for name, ms in times.items()}
    print(json.dumps(row), flush=True)
    return row


def loaded(folder, launch, functions):
    """The function of an exported launch."""
    key = (launch["ptx"], launch["entry"])
    if key not in functions:
        with open(os.path.join(folder, launch["ptx"]), "rb") as file:
            source = file.read() + b"\0"
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        check(driver.cuModuleLoadData(ctypes.byref(module), source), "cuModuleLoadData")
        name = launch["entry"].encode()
        check(driver.cuModuleGetFunction(ctypes.byref(function), module, name), "cuModuleGetFunction")
        functions[key] = function
    function = functions[key]
    check(driver.cuFuncSetAttribute(function, SHARED_BYTES, launch["shared"]), "cuFuncSetAttribute")
    return function


NUMBERS = {"u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "f32": ctypes.c_float, "f64": ctypes.c_double}


def encoded(of, address):
    """A tensor map from its numbers; (what keeps it alive, its address)."""
    raw = (ctypes.c_ubyte * 192)()
    at = (ctypes.addressof(raw) + 63) // 64 * 64
    rank = len(of["dims"])
    dims, strides = (ctypes.c_uint64 * rank)(*of["dims"]), (ctypes.c_uint64 * rank)(*of["strides"])
    extents, steps = (ctypes.c_uint32 * rank)(*of["extents"]), (ctypes.c_uint32 * rank)(*of["element_strides"])
    code = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), of["element"], rank, ctypes.c_void_p(address), dims, strides, extents, steps,
        of["interleave"], of["swizzle"], of["l2"], of["fill"],
    )
    check(code, "cuTensorMapEncodeTiled")
    return raw, at


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: an identifier, padding, and a value of 64 bytes, here a number."""

    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_char * 4), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [(name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")] + [
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)), ("count", ctypes.c_uint)
    ]


# CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: the kernel waits for the launch before it by itself.
BEGINS_EARLY = LaunchAttribute(6, b"", 1, b"")


def bound(folder, launches, memory, functions):
    """The launches of a problem for tensors by name, to be repeated on the current stream."""
    all_of_them = []
    for launch in launches:
        kept, pointers = [], []
        for argument in launch["arguments"]:
            (kind, value), = argument.items()
            if kind == "map":
                name, offset = value["place"]
                raw, at = encoded(value, memory[name].data_ptr() + offset)
                kept.append(raw)
                pointers.append(at)
                continue
            if kind == "pointer":
                name, offset = value
                kind, value = "u64", memory[name].data_ptr() + offset
            number = NUMBERS[kind](value)
            kept.append(number)
            pointers.append(ctypes.addressof(number))
        arguments = (ctypes.c_void_p * len(pointers))(*pointers)
        all_of_them.append((loaded(folder, launch, functions), launch, arguments, kept))

    def run():
        stream = torch.cuda.current_stream().cuda_stream
        for function, launch, arguments, _ in all_of_them:
            config = LaunchConfig(*launch["grid"], *launch["block"], launch["shared"], stream, None, 0)
            if launch["early"]:
                config.attributes, config.count = ctypes.pointer(BEGINS_EARLY), 1
            code = driver.cuLaunchKernelEx(ctypes.byref(config), function, arguments, None)
            check(code, "cuLaunchKernelEx")

    return run


def drawn_operands(problem, names):
    """Memory by name, and Q, K, V and O as (batch, head, sequence, feature) with the strides of the problem."""
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[problem["type"]]
    batch, (heads, of_keys), (queries, keys) = problem["batch"], problem["heads"], problem["lengths"]
    inner, outer = problem["features"]
    shapes = [(batch, heads, queries, inner), (batch, of_keys, keys, inner), (batch, of_keys, keys, outer), (batch, heads, queries, outer)]
    memory, tensors = {}, []
    for name, shape, strides in zip("QKVO", shapes, problem["strides"]):
        elements = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
        if name == "O":
            memory[name] = torch.full((elements,), math.nan, device="cuda", dtype=dtype)
        else:
            memory[name] = torch.randn(elements, device="cuda", dtype=dtype)
        tensors.append(torch.as_strided(memory[name], shape, strides))
    for of in names:
        if of["name"] == "sinks":
            memory["sinks"] = torch.arange(heads, device="cuda", dtype=torch.float32) % 5 - 2
        elif of["name"] not in memory:
            memory[of["name"]] = torch.zeros((of["bytes"] + 3) // 4, device="cuda", dtype=torch.float32)
    return memory, tensors


def library_calls(problem):
    """What PyTorch has for the problem: functions of Q, K and V by name, and the reasons of those that it has not."""
    queries, keys = problem["lengths"]
    is_causal = problem["left"] is None and problem["right"] == 0
    why = None
    if problem["left"] is not None:
        why = "a window"
    elif problem["softcap"] is not None:
        why = "a soft-cap"
    elif problem["sinks"]:
        why = "sinks"
    elif is_causal and queries > keys:
        why = "queries without a key"
    if why:
        return {}, {"cudnn": why, "flash": why}
    grouped = problem["heads"][0] != problem["heads"][1]
    attend = torch.nn.functional.scaled_dot_product_attention

    def of(backend, **how):
        def run(q, k, v):
            with sdpa_kernel(backend):
                return attend(q, k, v, enable_gqa=grouped, scale=problem["scale"], **how)

        return run

    calls, refused = {}, {}
    # The causal mask of PyTorch is aligned at the first query, and ours at the last one.
    if is_causal and queries != keys and queries > 1:
        from torch.nn.attention.bias import causal_lower_right

        refused["cudnn"] = "a causal mask that is aligned at the end"
        calls["flash"] = of(SDPBackend.FLASH_ATTENTION, attn_mask=causal_lower_right(queries, keys))
    else:
        how = {"is_causal": is_causal and queries > 1}
        calls["cudnn"] = of(SDPBackend.CUDNN_ATTENTION, **how)
        calls["flash"] = of(SDPBackend.FLASH_ATTENTION, **how)
    return calls, refused


def drawn_reference(problem, q, k, v, sinks, batch, head, rows):
    """Rows of a head in double precision."""
    group = problem["heads"][0] // problem["heads"][1]
    queries, keys = problem["lengths"]
    scores = q[batch, head, rows].double() @ k[batch, head // group].double().t() * problem["scale"]
    cap = problem["softcap"]
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    places = torch.arange(queries, device="cuda")[rows, None] + keys - queries
    at = torch.arange(keys, device="cuda")[None]
    if problem["right"] is not None:
        scores.masked_fill_(at > places + problem["right"], -math.inf)
    if problem["left"] is not None:
        scores.masked_fill_(at < places - problem["left"], -math.inf)
    sink = sinks[head].double() if sinks is not None else torch.tensor(-math.inf, device="cuda", dtype=torch.double)
    top = torch.maximum(scores.amax(-1, keepdim=True), sink)
    top = torch.where(torch.isinf(top), torch.zeros_like(top), top)
    weights = torch.exp(scores - top)
    sums = weights.sum(-1, keepdim=True) + torch.exp(sink - top)
    out = torch.where(sums > 0, weights / sums, torch.zeros_like(weights)) @ v[batch, head // group].double()
    return out, (top + torch.log(sums))[:, 0]


def drawn_error(problem, found, operands, memory, sums):
    """The relative error of sampled rows: the first and the last 100 of the first and the last head, or, of few queries, all of as
    many heads as have 400 rows: two rows of 64 numbers say an error no better than to 6 %. NaN if a log-sum-exp is wrong."""
    q, k, v = operands
    batch, heads, queries = q.shape[:3]
    off = norm = 0.0
    if queries < 100:
        count = min(batch * heads, -(-400 // queries))
        places = sorted({i * (batch * heads - 1) // max(1, count - 1) for i in range(count)})
        sampled = [(i // heads, i % heads, slice(0, queries)) for i in places]
    else:
        sampled = [(0, 0, slice(0, 100)), (batch - 1, heads - 1, slice(queries - 100, queries))]
    for b, head, rows in sampled:
        right, logs = drawn_reference(problem, q, k, v, memory.get("sinks"), b, head, rows)
        off += (found[b, head, rows].double() - right).square().sum().item()
        norm += right.square().sum().item()
        if sums is not None:
            own = sums.view(batch, heads, queries)[b, head, rows].double()
            if not torch.all((own == logs) | ((own - logs).abs() < 1e-2)):
                return math.nan
    return math.sqrt(off / max(norm, 1e-300))


def graph_of(runs):
    """A graph of the calls one after the other, which has run once."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for run in runs[:2]:
            run()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph, kept = torch.cuda.CUDAGraph(), []
    with torch.no_grad(), torch.cuda.graph(graph):
        # All outputs stay alive, so that they rotate too.
        kept = [run() for run in runs]
    graph.replay()
    torch.cuda.synchronize()
    return graph, kept


def replay_in_turns(graphs, rounds, calls):
    """Microseconds of a call of each, medians; another one begins each round."""
    times, names = {name: [] for name in graphs}, list(graphs)
    for turn in range(rounds):
        for i in range(len(names)):
            name = names[(i + turn) % len(names)]
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graphs[name][0].replay()
            end.record()
            end.synchronize()
            times[name].append(1e3 * start.elapsed_time(end) / calls)
    return {name: round(median(of), 3) for name, of in times.items()}


def measure_drawn(folder, entry, functions):
    problem = entry["problem"]
    sets = [drawn_operands(problem, entry["memory"]) for _ in range(problem["sets"])]
    ours = [bound(folder, entry["launches"], memory, functions) for memory, _ in sets]
    row = {"problem": problem, "plan": entry["plan"], "us": None, "library": {}, "refused": {}, "errors": {}}
    memory, (q, k, v, o) = sets[0]
    ours[0]()
    torch.cuda.synchronize()
    sums = memory["log_sum_exp"] if problem["log_sum_exp"] else None
    row["errors"]["ours"] = drawn_error(problem, o, (q, k, v), memory, sums)
    calls = max(len(sets), 3)
    graphs = {"ours": graph_of([ours[i % len(sets)] for i in range(calls)])}
    # Each launch of a plan that has several, alone, and the plans beside the default one.
    alone = [(f"launch {i}", [launch]) for i, launch in enumerate(entry["launches"])] if len(entry["launches"]) > 1 else []
    others = alone + [(other["plan"], other["launches"]) for other in entry.get("others", [])]
    for name, launches in others:
        runs = [bound(folder, launches, memory, functions) for memory, _ in sets]
        runs[0]()
        torch.cuda.synchronize()
        if name not in dict(alone):
            row["errors"][name] = drawn_error(problem, o, (q, k, v), memory, sums)
        graphs[name] = graph_of([runs[i % len(sets)] for i in range(calls)])
    # PyTorch's kernels fault on rows that lie at no multiples of 16 bytes, after which the process has no device.
    aligned = all(stride % 8 == 0 for strides in problem["strides"] for stride in strides[:-1])
    if aligned:
        contenders, row["refused"] = library_calls(problem)
    else:
        contenders, row["refused"] = {}, {"all": "rows at no multiples of 16 bytes"}
    for name, call in contenders.items():
        try:
            with torch.no_grad():
                found = call(q, k, v)
            row["errors"][name] = drawn_error(problem, found, (q, k, v), memory, None)
            runs = [lambda of=sets[i % len(sets)][1]: call(*of[:3]) for i in range(calls)]
            graphs[name] = graph_of(runs)
        except Exception as failure:  # PyTorch does not take the problem: the line says why, and the bench goes on.
            row["refused"][name] = f"{type(failure).__name__}: {failure}".splitlines()[0][:200]
            torch.cuda.synchronize()
    times = replay_in_turns(graphs, 9, calls)
    row["us"] = times.pop("ours")
    row["others"] = {name: times.pop(name) for name, _ in others}
    row["library"] = times
    return row


def error_reference(errors):
    """The library whose error ours is compared with, and that error: cuDNN's where it takes the problem, else that of flash attention; else none."""
    for name in ("cudnn", "flash"):
        if errors.get(name) is not None:
            return name, errors[name]
    return None, None


def judged_error(row):
    """Adds to a row which error ours is compared with, and the quotient. Returns whether ours is too large."""
    own = row["errors"]["ours"]
    name, theirs = error_reference(row["errors"])
    ratio = own / theirs if theirs else None
    row["error_reference"] = name or "double precision"
    row["error_ratio"] = None if ratio is None else round(ratio, 3)
    return not own < 1e-2 or (ratio is not None and not ratio <= 1.1)


def run_drawn(folder, option, manifest="drawn.json"):
    seconds, began = float(option.get("--seconds", 600)), time.perf_counter()
    torch.manual_seed(int(option.get("--seed", 0)))
    torch.zeros(1, device="cuda")
    with open(os.path.join(folder, manifest)) as file:
        manifest = json.load(file)
    present = torch.cuda.get_device_properties(0).multi_processor_count
    if present != manifest["multiprocessors"]:
        raise RuntimeError(f"the plans are of {manifest['multiprocessors']} multiprocessors, and the device has {present}")
    out = open(option["--out"], "w") if "--out" in option else None

    def say(value):
        line = json.dumps(value)
        print(line, flush=True)
        if out:
            out.write(line + "\n")
            out.flush()

    version = ctypes.c_int()
    check(driver.cuDriverGetVersion(ctypes.byref(version)), "cuDriverGetVersion")
    say({
        "bench": "attention", "device": torch.cuda.get_device_name(), "date": time.strftime("%Y-%m-%d"),
        "driver": f"CUDA {version.value // 1000}.{version.value % 1000 // 10}", "commit": manifest["commit"], "seed": manifest["seed"],
        "library": f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}",
        "protocol": "one process; graphs of calls replayed in turn; medians of 9; normal numbers; operands rotated over 240 MB or 64 sets; "
        "errors of 200 to 400 rows against a softmax in double precision, at most 1.1 of cuDNN's; of flash attention's where cuDNN does not "
        "take the problem; at most 0.01 where neither does",
    })
    functions, ratios, worse = {}, [], []
    largest, compared = {}, {}
    for number, entry in enumerate(manifest["problems"]):
        if number < int(option.get("--from", 0)):
            continue
        if time.perf_counter() - began > seconds:
            print(json.dumps({"left_out_from": number}), flush=True)
            break
        row = measure_drawn(folder, entry, functions)
        is_worse, by = judged_error(row), row["error_reference"]
        compared[by] = compared.get(by, 0) + 1
        if row["error_ratio"] is not None:
            largest[by] = max(largest.get(by, 0.0), row["error_ratio"])
        say(row)
        torch.cuda.empty_cache()
        best = min((us for us in row["library"].values() if us), default=None)
        if best:
            ratios.append(best / row["us"])
        if is_worse:
            worse.append({"number": number, "reference": by, "ratio": row["error_ratio"], "errors": row["errors"]})
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        low = sorted(ratios)[len(ratios) // 100]
        print(json.dumps({"over_the_library": round(mean, 3), "first_percentile": round(low, 3), "problems": len(ratios)}), flush=True)
    print(json.dumps({"errors_compared_with": compared, "largest_ratio": largest}), flush=True)
    print(json.dumps({"errors_above_1.1_of_the_reference": worse}), flush=True)


def decode():
    """One query of each sequence, 32 heads on 8, 128 features; inputs and outputs rotate over more than L2."""
    for batch, keys in ((64, 8192), (1, 131072)):
        sets = []
        for _ in range(1 if batch > 1 else 2):
            q = torch.randn(batch, 32, 1, 128, device="cuda", dtype=torch.bfloat16)
            k, v = (torch.randn(batch, 8, keys, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            sets.append((q, k, v))
        state = [0]

        def cudnn():
            q, k, v = sets[state[0] % len(sets)]
            state[0] += 1
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

        times = [take_turns({"cudnn": cudnn}, 9, 4)["cudnn"] for _ in range(3)]
        size = 2 * batch * 128 * (2 * 32 + 2 * 8 * keys)
        rates = [round(size / ms / 1e9, 3) for ms in times]
        print(json.dumps({"decode": [batch, keys], "cudnn_us": [round(1e3 * ms, 2) for ms in times], "cudnn_tb_s": rates}))


def issue_shapes():
    for width in (64, 128, 256):
        for mask in ("full", "causal"):
            for length in (512, 1024, 2048, 4096, 8192, 16384):
                yield [width, 16384 // length, 2048 // width, length, length, mask]
    for length in (1024, 2048, 4096, 8192):
        yield [128, 4, 48, length, length, "causal"]


def main():
    if sys.argv[1] == "--decode":
        return run_drawn(sys.argv[2], dict(zip(sys.argv[3::2], sys.argv[4::2])), "decode.json") if sys.argv[2:] else decode()
    if sys.argv[1] == "--candidates":
        return run_drawn(sys.argv[2], dict(zip(sys.argv[3::2], sys.argv[4::2])), "candidates.json")
    if sys.argv[1] == "--drawn":
        return run_drawn(sys.argv[2], dict(zip(sys.argv[3::2], sys.argv[4::2])))
    folder, options = sys.argv[1], sys.argv[2:]
    option = dict(zip(options[::2], options[1::2]))
    seconds, began = float(option.get("--seconds", 600)), time.perf_counter()
    torch.manual_seed(int(option.get("--seed", 0)))
    torch.zeros(1, device="cuda")
    context = ctypes.c_void_p()
    check(driver.cuCtxGetCurrent(ctypes.byref(context)), "cuCtxGetCurrent")
    shapes = list(issue_shapes())
    if "--shapes" in option:
        with open(option["--shapes"]) as file:
            rows = [line.split() for line in file if line.strip()]
        shapes = [[int(n) for n in row[:5]] + [row[5]] for row in rows]
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    # Only the kernels of the shapes are loaded.
    wanted = {(shape[0], shape[5] == "causal") for shape in shapes}
    manifest = [entry for entry in manifest if (entry["width"], entry["causal"]) in wanted]
    usual = option.get("--usual") == "1"
    if usual:
        manifest = [entry for entry in manifest if any(shape[1:5] in entry["usual"] for shape in shapes)]
    with ThreadPoolExecutor(12) as pool:
        loaded = list(pool.map(lambda entry: Kernel(folder, entry, context), manifest))
    kernels = {kernel.entry["name"]: kernel for kernel in loaded}
    for name, kernel in kernels.items():
        facts = {"kernel": name, "load_ms": round(kernel.milliseconds), "registers": kernel.registers, "local": kernel.local}
        print(json.dumps(facts), flush=True)
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
                      "started_s": round(time.perf_counter() - began, 1)}), flush=True)
    best = []
    for shape in shapes:
        if time.perf_counter() - began > seconds:
            print(json.dumps({"left_out": shape}), flush=True)
            continue
        row = measure(shape, kernels, int(option.get("--rounds", 5)), option.get("--tokens") == "1", usual)
        ours = {name: ratio for name, ratio in row["ratio"].items() if name != "cudnn"}
        best.append(max(ours.values(), default=0.0))
    if best and min(best) > 0:
        mean = math.exp(sum(map(math.log, best)) / len(best))
        print(json.dumps({"best_of_ours_over_cudnn": round(mean, 3), "least": min(best), "shapes": len(best)}))


if __name__ == "__main__":
    main()

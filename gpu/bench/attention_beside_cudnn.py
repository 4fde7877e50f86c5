"""Our attention kernels beside cuDNN through PyTorch, interleaved in one process. Prints JSON, one shape a line.

`xtask bench attention --export FOLDER` writes the kernels as PTX and `manifest.json`, which says how they are launched.
Run: python attention_beside_cudnn.py FOLDER [--seconds N] [--shapes FILE] [--tokens 1], or
python attention_beside_cudnn.py --decode: cuDNN alone in a step of decoding, in bytes of Q, K, V and O a second.

With `--tokens 1` the tensors lie token by token, all heads of each, and not head by head.

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
        tiles *= heads * batch
        blocks = min(tiles, torch.cuda.get_device_properties(0).multi_processor_count) if persistent else tiles
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


def measure(shape, kernels, rounds, by_tokens):
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
        for persistent in entry.get("grids", [True]):
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
        return decode()
    folder, options = sys.argv[1], sys.argv[2:]
    option = dict(zip(options[::2], options[1::2]))
    seconds, began = float(option.get("--seconds", 600)), time.perf_counter()
    torch.manual_seed(int(option.get("--seed", 0)))
    torch.zeros(1, device="cuda")
    context = ctypes.c_void_p()
    check(driver.cuCtxGetCurrent(ctypes.byref(context)), "cuCtxGetCurrent")
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    with ThreadPoolExecutor(12) as pool:
        loaded = list(pool.map(lambda entry: Kernel(folder, entry, context), manifest))
    kernels = {kernel.entry["name"]: kernel for kernel in loaded}
    for name, kernel in kernels.items():
        facts = {"kernel": name, "load_ms": round(kernel.milliseconds), "registers": kernel.registers, "local": kernel.local}
        print(json.dumps(facts), flush=True)
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
                      "started_s": round(time.perf_counter() - began, 1)}), flush=True)
    shapes = list(issue_shapes())
    if "--shapes" in option:
        with open(option["--shapes"]) as file:
            rows = [line.split() for line in file if line.strip()]
        shapes = [[int(n) for n in row[:5]] + [row[5]] for row in rows]
    best = []
    for shape in shapes:
        if time.perf_counter() - began > seconds:
            print(json.dumps({"left_out": shape}), flush=True)
            continue
        row = measure(shape, kernels, int(option.get("--rounds", 5)), option.get("--tokens") == "1")
        ours = {name: ratio for name, ratio in row["ratio"].items() if name != "cudnn"}
        best.append(max(ours.values(), default=0.0))
    if best and min(best) > 0:
        mean = math.exp(sum(map(math.log, best)) / len(best))
        print(json.dumps({"best_of_ours_over_cudnn": round(mean, 3), "least": min(best), "shapes": len(best)}))


if __name__ == "__main__":
    main()

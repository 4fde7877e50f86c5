"""How fast copies between the GPUs of a host are: pushed or pulled, whole or in parts, on one stream or several, all GPUs or one.

Prints one line for each way: microseconds until each GPU at work has sent (push) or fetched (pull) 32 MiB to or from every other.
"""

import ctypes
import sys
import time

import torch

BYTES = 32 << 20
driver = ctypes.CDLL("libcuda.so.1")


def copy(to, source, offset, size, stream, device):
    torch.cuda.set_device(device)
    code = driver.cuMemcpyDtoDAsync_v2(
        ctypes.c_uint64(to.data_ptr() + offset),
        ctypes.c_uint64(source.data_ptr() + offset),
        ctypes.c_size_t(size),
        ctypes.c_void_p(stream.cuda_stream),
    )
    if code != 0:
        raise RuntimeError(f"cuMemcpyDtoDAsync returns {code}")


def main():
    count = torch.cuda.device_count()
    if count < 2:
        sys.exit(f"copies between GPUs need two of them, and there are {count}")
    everyone = range(count)
    source = [torch.randint(0, 255, (BYTES,), dtype=torch.uint8, device=d) for d in everyone]
    target = [[torch.empty(BYTES, dtype=torch.uint8, device=d) for _ in everyone] for d in everyone]
    # PyTorch gives a pair of GPUs access to each other at its first copy.
    for to in everyone:
        for of in everyone:
            target[to][of].copy_(source[of])
    streams = [[torch.cuda.Stream(d) for _ in range(8)] for d in everyone]

    def join():
        for device in everyone:
            torch.cuda.synchronize(device)

    def run(push, parts, lanes, ranks):
        size = BYTES // parts
        for rank in ranks:
            for step in range(1, count):
                other = (rank + step) % count if push else (rank - step) % count
                to, of = (other, rank) if push else (rank, other)
                for part in range(parts):
                    lane = (step * parts + part) % lanes
                    copy(target[to][of], source[of], part * size, size, streams[rank][lane], rank)

    def microseconds(push, parts, lanes, ranks, runs=8):
        samples = []
        for _ in range(7):
            join()
            start = time.perf_counter()
            for _ in range(runs):
                run(push, parts, lanes, ranks)
            join()
            samples.append((time.perf_counter() - start) / runs * 1e6)
        return sorted(samples)[len(samples) // 2]

    moved = (count - 1) * BYTES
    for push in (False, True):
        for parts, lanes in ((1, 1), (1, 3), (2, 2), (2, 6), (4, 1), (4, 4)):
            every = microseconds(push, parts, lanes, everyone)
            one = microseconds(push, parts, lanes, [0])
            way = "push" if push else "pull"
            print(
                f"{way}, {parts} parts, {lanes} streams: all {every:.0f} us, {moved / every / 1e3:.0f} GB/s each; "
                f"one alone {one:.0f} us, {moved / one / 1e3:.0f} GB/s",
                flush=True,
            )


if __name__ == "__main__":
    main()

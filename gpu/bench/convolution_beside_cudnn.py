"""cuDNN's fastest algorithm for a convolution, measured when asked: the other side of `xtask bench convolution`.

Reads JSON, one request a line: an object sets a layer up (n, c, h, k, r, stride, padding, sets, batch), and "time" measures one
replay of a graph with `batch` calls, which rotate over `sets` operands. Answers JSON, one line each.
"""

import json
import sys

import torch


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


class Layer:
    def __init__(self, n, c, h, k, r, stride, padding, sets, batch):
        def random(*shape):
            tensor = torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
            return tensor.to(memory_format=torch.channels_last)

        operands = [(random(n, c, h, h), random(k, c, r, r)) for _ in range(sets)]
        self.batch, self.kept = batch, []

        def run(i):
            x, w = operands[i % sets]
            return torch.nn.functional.conv2d(x, w, stride=stride, padding=padding)

        # The first call of a shape times cuDNN's algorithms.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for i in range(3):
                out = run(i)
            if not out.is_contiguous(memory_format=torch.channels_last):
                raise RuntimeError("cuDNN's output is not NHWC")
            del out
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            # As many outputs as operands stay alive, so that outputs rotate too.
            for i in range(batch):
                self.kept.append(run(i))
                self.kept = self.kept[-sets:]
        self.operands = operands
        self.time()

    def time(self):
        times = []
        for _ in range(3):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self.graph.replay()
            end.record()
            end.synchronize()
            times.append(1e3 * start.elapsed_time(end) / self.batch)
        return median(times)


def say(value):
    print(json.dumps(value), flush=True)


def main():
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0
    torch.zeros(1, device="cuda")
    versions = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "gpu": torch.cuda.get_device_name()}
    say(versions)
    layer = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if request == "time":
                say({"us": layer.time()})
                continue
            layer = None
            torch.cuda.empty_cache()
            layer = Layer(**request)
            say({"ready": True})
        except Exception as error:  # The bench says it, and goes on without cuDNN.
            say({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()

"""Launches the kernels of this folder on tensors of torch, by ctypes and the driver: python3 launch.py FOLDER.

FOLDER holds scale.json and scale_tma.json, as `cargo run -- FOLDER` writes them.
"""

import ctypes
import json
import pathlib
import re
import sys

import torch

cuda = ctypes.CDLL("libcuda.so.1")
NUMBERS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "u32": ctypes.c_uint32, "s32": ctypes.c_int32}
ELEMENTS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "s32": torch.int32, "u8": torch.uint8}


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(text))
        raise RuntimeError(f"{name}: {text.value}")


def tensor_map(parameter, tensor):
    """The 128 bytes that cuTensorMapEncodeTiled writes for a tensor of two modes."""
    role = parameter["role"]
    extents = [tensor.shape[d["leaf"]] for d in role["dimensions"]]
    strides = [tensor.stride(d["leaf"]) * role["element_bytes"] for d in role["dimensions"]][1:]
    rank = len(extents)
    buffer = ctypes.create_string_buffer(128 + 128)
    start = (ctypes.addressof(buffer) + 127) // 128 * 128
    call(
        "cuTensorMapEncodeTiled",
        ctypes.c_void_p(start),
        role["element"]["code"],
        rank,
        ctypes.c_void_p(tensor.data_ptr()),
        (ctypes.c_uint64 * rank)(*extents),
        (ctypes.c_uint64 * (rank - 1))(*strides),
        (ctypes.c_uint32 * rank)(*role["extents"]),
        (ctypes.c_uint32 * rank)(*role["element_strides"]),
        role["interleave"]["code"],
        role["swizzle"]["code"],
        role["l2"]["code"],
        role["fill"]["code"],
    )
    return ctypes.string_at(start, 128)


# ANCHOR: checks
def checked_tensor(name, role, tensor):
    """The tensor, if its type, its constants and its address are those of the kernel."""
    if tensor.dtype != ELEMENTS[role["element"]]:
        raise ValueError(
            f"{name} has elements of {tensor.dtype}, "
            f"and the kernel takes {role['element']}"
        )
    shape, stride = (re.findall(r"_?\d+", part) for part in role["layout"].split(":"))
    for leaf, constants in enumerate(zip(shape, stride)):
        own = [tensor.shape[leaf], tensor.stride(leaf)]
        for what, number, constant in zip(["extent", "stride"], own, constants):
            if constant.startswith("_") and number != int(constant[1:]):
                raise ValueError(
                    f"{name} has the {what} {number} in leaf {leaf}, "
                    f"and the kernel has {constant[1:]}"
                )
    checked(f"the address of {name}", role, tensor.data_ptr())
    return tensor


def checked(what, role, number):
    """The number, if it is in the range of its role and a multiple of what the role says."""
    multiple = role.get("multiple_of")
    if multiple and number % multiple:
        raise ValueError(f"{what} is {number}, and must be a multiple of {multiple}")
    least, most = role.get("least"), role.get("most")
    if least is not None and number < least:
        raise ValueError(f"{what} is {number}, and must be at least {least}")
    if most is not None and number > most:
        raise ValueError(f"{what} is {number}, and must be at most {most}")
    return number
# ANCHOR_END: checks


# ANCHOR: arguments
def arguments(kernel, tensors, numbers):
    """The arguments in order, each as bytes."""
    for parameter in kernel["parameters"]:
        role, name = parameter["role"], parameter["name"]
        kind = role["kind"]
        if kind == "pointer":
            value = ctypes.c_uint64(checked_tensor(name, role, tensors[name]).data_ptr())
        elif kind == "extent":
            extent = tensors[role["tensor"]].shape[role["leaf"]]
            value = ctypes.c_uint32(checked(name, role, extent))
        elif kind == "stride":
            stride = tensors[role["tensor"]].stride(role["leaf"])
            value = ctypes.c_int64(checked(name, role, stride))
        elif kind == "tensor_map":
            value = tensor_map(parameter, tensors[name])
        elif kind == "number":
            value = NUMBERS[parameter["ty"]](checked(name, role, numbers[name]))
        else:
            raise ValueError(f"{name} is a {kind}, which this launcher does not make")
        yield bytes(value)
# ANCHOR_END: arguments


# ANCHOR: launch
CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


def launch(kernel, grid, tensors, numbers):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), kernel["ptx"].encode())
    call("cuModuleGetFunction", ctypes.byref(function), module, kernel["entry"].encode())
    if kernel["dynamic_shared"] > 48 << 10:
        call(
            "cuFuncSetAttribute",
            function,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            kernel["dynamic_shared"],
        )
    # One pointer for each argument. In one buffer (CU_LAUNCH_PARAM_BUFFER_POINTER) each would lie
    # at the offset that cuFuncGetParamInfo says: with a tensor map that is not the one of PTX.
    held = []
    pointers = (ctypes.c_void_p * len(kernel["parameters"]))()
    for i, data in enumerate(arguments(kernel, tensors, numbers)):
        # A tensor map must lie at a multiple of 64 bytes; each argument gets a multiple of 128.
        buffer = ctypes.create_string_buffer(len(data) + 128)
        start = (ctypes.addressof(buffer) + 127) // 128 * 128
        ctypes.memmove(start, data, len(data))
        held.append(buffer)
        pointers[i] = start
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    call(
        "cuLaunchKernel",
        function,
        *grid,
        *kernel["block"],
        kernel["dynamic_shared"],
        stream,
        pointers,
        None,
    )
    torch.cuda.synchronize()
# ANCHOR_END: launch


def main():
    torch.cuda.init()
    wide = torch.randn(1000, 40, device="cuda")
    source = wide[:, :32]  # rows of 32 elements, 40 apart: not contiguous
    for name in ["scale", "scale_tma"]:
        kernel = json.loads((pathlib.Path(sys.argv[1]) / f"{name}.json").read_text())
        target = torch.zeros(1000, 32, device="cuda")
        grid = [(1000 + 63) // 64, 1, 1]
        launch(kernel, grid, {"from": source, "to": target}, {"alpha": 2.5})
        if not torch.equal(target, 2.5 * source):
            sys.exit(f"{name}: WRONG, {(target - 2.5 * source).abs().max().item()}")
        print(f"{name}: 1000 rows of 32 on {torch.cuda.get_device_name()}, equal to torch's")


main()

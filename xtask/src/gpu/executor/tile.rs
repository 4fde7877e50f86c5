//! Tensor maps: a box of every swizzle, inside the tensor, over its edges and outside.

use anyhow::{Context, Result, ensure};
use colex_atom::{Interleave, L2Promotion, OobFill, TensorMap, TmaElement, TmaSwizzle};
use colex_gpu::{Argument, Buffer, Device, Function, Launch};

use super::same;

const TILE: &str = include_str!("../ptx/tile.ptx");

/// The half words of a box.
const WORDS: i64 = 2048;

/// A tensor of 16-bit words on the device: `word(x, y)` at row y of `stride` words.
struct Tensor {
    columns: i64,
    rows: i64,
    stride: i64,
    data: Buffer<u16>,
}

impl Tensor {
    fn new(device: &Device, columns: i64, rows: i64, stride: i64) -> Result<Tensor> {
        let at = |i: i64| word(i % stride, i / stride);
        let words: Vec<u16> = (0..rows * stride).map(at).collect();
        let data = device.upload(&words)?;
        Ok(Tensor {
            columns,
            rows,
            stride,
            data,
        })
    }

    fn map(&self, swizzle: TmaSwizzle, width: i64) -> TensorMap {
        TensorMap {
            element: TmaElement::U16,
            dims: vec![self.columns, self.rows],
            strides: vec![self.stride * 2],
            extents: vec![width, WORDS / width],
            element_strides: vec![1, 1],
            im2col: None,
            swizzle,
            interleave: Interleave::None,
            l2: L2Promotion::B128,
            fill: OobFill::Zero,
        }
    }

    /// What the box at (x, y) holds: zeros outside the tensor.
    fn boxed(&self, width: i64, x: i64, y: i64) -> Vec<u16> {
        let at = |i: i64| (x + i % width, y + i / width);
        let inside =
            |(x, y): (i64, i64)| (0..self.columns).contains(&x) && (0..self.rows).contains(&y);
        let read = |place: (i64, i64)| {
            if inside(place) {
                word(place.0, place.1)
            } else {
                0
            }
        };
        (0..WORDS).map(|i| read(at(i))).collect()
    }
}

/// The word at a column and a row; never 0.
fn word(x: i64, y: i64) -> u16 {
    ((x * 257 + y * 4099) % 65521 + 1) as u16
}

/// A box whose first word is not at a multiple of 16 bytes: the hardware stops the kernel.
pub(super) fn unaligned() -> Result<String> {
    let device = Device::gpu(0)?;
    let function = device.load_ptx(TILE, "tile")?;
    let tensor = Tensor::new(&device, 600, 300, 600)?;
    let map = device.tensor_map(&tensor.map(TmaSwizzle::None, 64), &tensor.data)?;
    let out = device.poisoned::<u16>(WORDS as usize)?;
    let arguments: [Argument; 4] = [map.into(), (&out).into(), 4.into(), 0.into()];
    device.launch(&function, Launch::new(1, 128), &arguments)?;
    let error = super::refused("a box at column 4", device.synchronize())?;
    ensure!(
        error.to_string().contains("CUDA_ERROR_ILLEGAL_INSTRUCTION"),
        "{error}"
    );
    Ok("a box at column 4 of 16-bit words: CUDA_ERROR_ILLEGAL_INSTRUCTION".to_string())
}

/// Two tensors, one on each side of the size below which the encoded map is corrected.
pub(super) fn every_swizzle(device: &Device) -> Result<String> {
    let function = device.load_ptx(TILE, "tile")?;
    let tensors = [
        Tensor::new(device, 100, 50, 104)?,
        Tensor::new(device, 600, 300, 600)?,
    ];
    let modes = [
        (TmaSwizzle::None, 64),
        (TmaSwizzle::B32, 16),
        (TmaSwizzle::B64, 32),
        (TmaSwizzle::B128, 64),
    ];
    let mut boxes = 0;
    for tensor in &tensors {
        for (swizzle, width) in modes {
            for (x, y) in [(0, 0), (8, 3), (-8, -7), (88, 40), (1000, 1000)] {
                load(device, &function, tensor, swizzle, width, (x, y)).with_context(|| {
                    format!("{swizzle:?} at ({x}, {y}) of {} rows", tensor.rows)
                })?;
                boxes += 1;
            }
        }
    }
    let refused = device.tensor_map(&tensors[0].map(TmaSwizzle::B32, 64), &tensors[0].data);
    ensure!(
        refused.is_err_and(|error| error.is_tensor_refused()),
        "a row of 128 bytes was taken with a swizzle of 32"
    );
    Ok(format!(
        "{boxes} boxes of 4096 bytes, swizzles of 0, 32, 64 and 128 bytes, also over the edges"
    ))
}

fn load(
    device: &Device,
    function: &Function,
    tensor: &Tensor,
    swizzle: TmaSwizzle,
    width: i64,
    (x, y): (i32, i32),
) -> Result<()> {
    let map = device.tensor_map(&tensor.map(swizzle, width), &tensor.data)?;
    let out = device.poisoned::<u16>(WORDS as usize)?;
    let arguments: [Argument; 4] = [map.into(), (&out).into(), x.into(), y.into()];
    device.launch(function, Launch::new(1, 128), &arguments)?;
    let found = out.download()?;
    let expected = tensor.boxed(width, i64::from(x), i64::from(y));
    let on_bytes = swizzle.on_bytes();
    let placed = |i: usize| found[(on_bytes.apply(i as i64 * 2) / 2) as usize];
    same(
        "the first wrong word",
        (0..expected.len()).find(|&i| placed(i) != expected[i]),
        None,
    )
}

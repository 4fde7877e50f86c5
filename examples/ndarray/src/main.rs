//! A product of strided views of `ndarray`, on the first GPU or on the simulator. Nothing of CUDA is linked.

use std::error::Error;

use colex_gpu::{Device, View, gemm};
use colex_layout::Layout;
use ndarray::{Array2, ArrayView2, s};

/// The layout of a view of `ndarray`: its shape and its strides.
fn layout(view: &ArrayView2<'_, f32>) -> Result<Layout, Box<dyn Error>> {
    let ([m, n], [down, across]) = (
        [view.nrows(), view.ncols()],
        [view.strides()[0], view.strides()[1]],
    );
    Ok(Layout::new(
        (m as i64, n as i64),
        (down as i64, across as i64),
    )?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open();
    let whole = Array2::from_shape_fn((96, 80), |(i, j)| ((i * 7 + j * 3) % 13) as f32 - 6.0);
    // Every second row of the array, and the transpose of its first 40 columns: neither is contiguous.
    let a = whole.slice(s![..;2, ..32]);
    let b = whole.slice(s![..32, ..40]).reversed_axes();

    let memory = device.upload(whole.as_slice().ok_or("the array is contiguous")?)?;
    let mut c = device.poisoned::<f32>(48 * 40)?;
    gemm(
        &View::new(&memory, layout(&a)?)?,
        &View::new(&memory, layout(&b)?)?,
        &c.view_mut((48, 40))?,
    )?;

    let found = Array2::from_shape_vec((48, 40), c.download()?)?;
    assert_eq!(found, a.dot(&b.t()));
    println!("48x40x32 on {}: right", device.name());
    Ok(())
}

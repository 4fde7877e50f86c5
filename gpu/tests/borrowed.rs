//! Slices of a program that the library borrows.

use colex_gpu::Device;
use colex_gpu::cuda::BorrowedSlice;
use colex_gpu::kernels::{GemmProblem, View, ViewMut};

#[test]
fn library_kernels_take_borrowed_slices() {
    let device = Device::simulator(colex_atom::Arch::Sm80);
    let (a, b) = (
        device.upload(&[1f32, 2.0, 3.0, 4.0]),
        device.upload(&[1f32, 0.0]),
    );
    let (a, b, c) = (a.unwrap(), b.unwrap(), device.poisoned::<f32>(2).unwrap());
    let problem = GemmProblem::new(2, 1, 2);
    let read = [
        BorrowedSlice::of_buffer(&a, false),
        BorrowedSlice::of_buffer(&b, false),
    ];
    let mut written = BorrowedSlice::of_buffer(&c, true);
    let gemm = problem.on(&read[0], &read[1], &mut written).unwrap();
    gemm.run().unwrap();
    assert_eq!(c.download().unwrap(), [1.0, 3.0]);
    let mut kept = BorrowedSlice::of_buffer(&c, false);
    let refused = problem.on(&read[0], &read[1], &mut kept);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the slice was borrowed for reading, and a view to write it needs `borrow_slice_mut`"
    );
}

#[test]
fn a_copy_does_not_write_what_was_borrowed_for_reading() {
    let device = Device::simulator(colex_atom::Arch::Sm80);
    let (from, to) = (
        device.upload(&[7u8, 8]).unwrap(),
        device.zeros::<u8>(2).unwrap(),
    );
    let copy = |source: BorrowedSlice<'_, u8>, mut destination: BorrowedSlice<'_, u8>| {
        let from = View::new(&source, "2:1")?;
        colex_gpu::copy(&from, &ViewMut::new(&mut destination, "2:1")?)
    };
    copy(
        BorrowedSlice::of_buffer(&from, false),
        BorrowedSlice::of_buffer(&to, true),
    )
    .unwrap();
    assert_eq!(to.download().unwrap(), [7, 8]);
    assert_eq!(
        copy(
            BorrowedSlice::of_buffer(&from, false),
            BorrowedSlice::of_buffer(&to, false)
        )
        .unwrap_err()
        .to_string(),
        "the slice was borrowed for reading, and a view to write it needs `borrow_slice_mut`"
    );
    let two = BorrowedSlice::of_buffer(&to, false);
    let long = View::new(&two, "3:1").unwrap_err();
    assert_eq!(
        long.to_string(),
        "3:1 reaches element 2, and the buffer has elements 0 to 1"
    );
}

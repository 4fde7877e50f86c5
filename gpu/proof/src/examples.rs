//! Runs of the kernels in the examples of `colex-tensor`, on the simulator.

use std::error::Error;

use colex_atom::Ty;
use colex_device::Device;
use colex_gpu::{LaunchArg, Load};
use colex_ir::{Access, Address, Reg, RegType, Space, Type};
use colex_layout::Layout;
use colex_tensor::{Builder, Fragment, Index, Tensor};
use colex_tiled::TiledCopy;

/// What an example returns.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Runs a kernel without parameters on one block, or one cluster, and returns an index in each of its threads.
///
/// ```
/// use colex_atom::Arch;
/// use colex_tensor::Builder;
///
/// let mut k = Builder::new("k", Arch::Sm80, 32);
/// let tid = k.thread();
/// assert_eq!(colex_proof::examples::values(k, &(tid * 2))?[..3], [0, 2, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns the error of the kernel, of the launch or of the simulator.
pub fn values(mut k: Builder, index: &Index) -> Outcome<Vec<i32>> {
    let value = k.value(index);
    Ok(words(k, None, &[value])?.concat())
}

/// Runs a kernel as [`values`] does, on `blocks` blocks, and returns the index in thread 0 of each block.
///
/// # Errors
///
/// Returns the errors of [`values`].
pub fn values_of_blocks(mut k: Builder, blocks: u32, index: &Index) -> Outcome<Vec<i32>> {
    let value = k.value(index);
    let words = words(k, Some(blocks), &[value])?;
    let threads = words.len() / blocks as usize;
    Ok(words
        .iter()
        .step_by(threads)
        .map(|words| words[0])
        .collect())
}

/// Runs a kernel as [`values`] does, and returns the elements of a fragment in each thread, in the order of its layout.
///
/// # Errors
///
/// Returns the errors of [`values`].
pub fn elements(mut k: Builder, fragment: &Fragment) -> Outcome<Vec<Vec<f32>>> {
    let wide = k.convert(fragment, Ty::F32);
    let registers = (0..wide.layout().size()).map(|i| wide.gathered(i, 1).regs()[0]);
    let registers: Vec<Reg> = registers.collect();
    let bits = |words: Vec<i32>| words.into_iter().map(|word| f32::from_bits(word as u32));
    let words = words(k, None, &registers)?;
    Ok(words
        .into_iter()
        .map(|words| bits(words).collect())
        .collect())
}

/// Stores registers of 32 bits from every thread, and returns them, thread by thread.
fn words(mut k: Builder, blocks: Option<u32>, registers: &[Reg]) -> Outcome<Vec<Vec<i32>>> {
    let count = registers.len();
    let threads = k.thread().range().1 as u32 + 1;
    let out = k.scalar_argument("out", Type::U64);
    let number = k.block_index(0) * i64::from(threads) + k.thread();
    let place = k.wide_value(&(number * (4 * count as i64)));
    k.emit(|ir| {
        let address = Address::from(ir.add(Type::U64, out, place));
        for (i, register) in (0..).zip(registers) {
            let ty = match register.ty {
                RegType::F32 => Type::F32,
                _ => Type::U32,
            };
            ir.store(Access::new(Space::Global, ty), address.at(4 * i), *register);
        }
    });
    let built = k.finish()?;
    let device = Device::simulator(built.kernel.target);
    let cluster = built
        .kernel
        .cluster
        .map_or(1, |cluster| cluster.iter().product());
    let blocks = blocks.unwrap_or(cluster);
    let found = device.poisoned::<i32>((blocks * threads) as usize * count)?;
    built.load(&device)?.launch([blocks], (found.address(),))?;
    Ok(found
        .download()?
        .chunks(count)
        .map(<[i32]>::to_vec)
        .collect())
}

/// Runs a kernel of one warp with two row-major matrices of `f32` of the extents `shape`, and returns the second one.
///
/// `body` is given the builder, a tiled copy with one element per thread and the thread's partitions of the tiles of 4 by
/// 8 elements at the origins of the two matrices. The elements of the first matrix are 0, 1, 2, ..; those of the second one
/// are -1.
///
/// # Errors
///
/// Returns the errors of [`values`].
pub fn copied(
    shape: (usize, usize),
    body: impl FnOnce(&mut Builder, &TiledCopy, &Tensor, &Tensor),
) -> Outcome<Vec<f32>> {
    use colex_tensor::AtThread;
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(atom, 32, "(4,8):(8,1)", "(1,1):(0,0)")?;
    let mut k = Builder::new("copied", colex_atom::Arch::Sm80, 32);
    let dynamic: Layout = "(4,8):(8,_1)".parse()?;
    let [from, to] = ["from", "to"].map(|name| k.tensor(name, Ty::F32, &dynamic));
    let mine = copy.at(&k.thread());
    let src = mine.partition_src(&from.local_tile((4, 8), (0, 0))); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&to.local_tile((4, 8), (0, 0))); // (CPY, CPY_M, CPY_N)
    body(&mut k, &copy, &src, &dst);
    let device = Device::simulator(colex_atom::Arch::Sm80);
    let numbers: Vec<f32> = (0..shape.0 * shape.1).map(|i| i as f32).collect();
    let from = device.upload(&numbers)?;
    let mut to = device.upload(&vec![-1.0_f32; numbers.len()])?;
    let views: (LaunchArg<'_>, LaunchArg<'_>) =
        (from.view(shape)?.into(), to.view_mut(shape)?.into());
    k.finish()?.load(&device)?.launch([1], views)?;
    Ok(to.download()?)
}

//! Epilogues of products: drawn formulas over drawn tensors by every kernel of a device, against the host.

use core::fmt;
use core::ops::Range;

use colex_atom::{Arch, FloatFormat, Rounding, Ty};
use colex_device::{Buffer, Device, Element, View, ViewMut};
use colex_gpu::gemm::{
    Epilogue, EpilogueBuilder, EpilogueInputKind, EpilogueReductionKind, GemmMethod, GemmPlan,
    GroupProblem, Groups,
};
use colex_gpu::kernels::gemm::{Division, Operands};
use colex_gpu::kernels::{Compute, Gemm, GemmElement, Major};
use colex_layout::Layout;
use colex_sched::pipeline::Schedule;
use colex_tensor::Expr;
use half::{bf16, f16};

use super::fragments::{TYPES, conversions, element, formula, functions, is_near, is_there, words};
use super::gemm::groups;
use crate::soak::takes;
use crate::sweep::Random;

/// Types of sums and maxima.
const VECTORS: [Ty; 3] = [Ty::F32, Ty::F64, Ty::S32];

/// How the blocks of Hopper's kernel share the tiles and K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    schedule: Schedule,
    /// The columns of a tile of a kernel for several widths, and 0 for a kernel of one.
    columns: i64,
    division: Division,
}

/// Small numbers of a plan: the tile, the units, the cluster, the parts of K; and the way of its blocks.
type Numbers = (GemmMethod, [i64; 3], [i64; 2], [i64; 3], i64, Way);

/// That of kernels of one width whose tiles have K whole, or in parts that another kernel adds.
const PLAIN: Way = Way {
    schedule: Schedule::Cooperative,
    columns: 0,
    division: Division::SplitK,
};

/// Plans of small tiles, of which a small matrix has several.
const PLANS: [Numbers; 22] = {
    use GemmMethod::{Ampere, Gemv, Hopper, Simt, Volta};
    let alone = [1; 3];
    let pingpong = Way {
        schedule: Schedule::Pingpong,
        ..PLAIN
    };
    let by_fixup = Way {
        division: Division::SplitKFixup,
        ..PLAIN
    };
    let by_stream_k = Way {
        division: Division::StreamK,
        ..PLAIN
    };
    let of_64_columns = Way {
        columns: 64,
        ..PLAIN
    };
    let pingpong_of_64_columns = Way {
        columns: 64,
        ..pingpong
    };
    [
        (Simt, [32, 32, 8], [8, 8], alone, 1, PLAIN),
        (Simt, [64, 32, 8], [8, 4], alone, 1, PLAIN),
        (Volta, [32, 64, 16], [2, 2], alone, 1, PLAIN),
        (Ampere, [32, 32, 64], [2, 2], alone, 1, PLAIN),
        (Ampere, [16, 64, 64], [1, 4], alone, 1, PLAIN),
        // The tile along N and K is that of a vector for each thread.
        (Gemv, [1, 1, 1], [1, 8], alone, 1, PLAIN),
        (Gemv, [2, 1, 1], [1, 32], alone, 1, PLAIN),
        (Gemv, [1, 1, 1], [1, 1], [1, 1, 2], 1, PLAIN),
        (Hopper, [64, 32, 16], [1, 1], alone, 1, PLAIN),
        (Hopper, [64, 16, 32], [1, 1], alone, 1, PLAIN),
        (Hopper, [128, 64, 16], [2, 1], alone, 1, PLAIN),
        (Hopper, [64, 64, 64], [1, 1], [2, 1, 1], 1, PLAIN),
        // Parts of K are summed over a cluster, and through a workspace.
        (Hopper, [64, 32, 16], [1, 1], [1, 1, 2], 1, PLAIN),
        (Hopper, [64, 32, 16], [1, 1], alone, 3, PLAIN),
        (Hopper, [128, 16, 16], [2, 1], [1, 1, 2], 2, PLAIN),
        // What large products take: consumers with a tile each, blocks that add parts, and kernels of several widths.
        (Hopper, [64, 32, 16], [1, 1], alone, 1, pingpong),
        (Hopper, [64, 32, 16], [1, 1], [2, 1, 1], 1, pingpong),
        (Hopper, [64, 32, 16], [1, 1], alone, 2, by_fixup),
        (Hopper, [64, 32, 16], [1, 1], [1, 2, 1], 3, by_stream_k),
        (Hopper, [64, 96, 32], [1, 1], alone, 1, of_64_columns),
        (
            Hopper,
            [64, 96, 32],
            [1, 1],
            alone,
            2,
            Way {
                columns: 64,
                ..by_fixup
            },
        ),
        (
            Hopper,
            [64, 96, 32],
            [1, 1],
            alone,
            1,
            pingpong_of_64_columns,
        ),
    ]
};

/// What the products of a call are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Products {
    /// One, or a batch.
    Batch,
    /// Groups of any kind.
    Groups,
    /// Matrices at unrelated addresses.
    Lists,
}

impl Products {
    /// Whether a plan is one of them.
    fn take(self, (method, _, _, cluster, split, way): &Numbers) -> bool {
        let is_whole = cluster[2] == 1 && *split == 1 && way.schedule == Schedule::Cooperative;
        match self {
            Products::Batch => true,
            Products::Groups => *method != GemmMethod::Gemv && is_whole,
            Products::Lists => !matches!(method, GemmMethod::Gemv | GemmMethod::Hopper),
        }
    }
}

/// Drawn groups.
struct DrawnGroups {
    problem: GroupProblem,
    numbers: Vec<u32>,
    spans: Vec<Range<i64>>,
}

impl DrawnGroups {
    /// Groups with the extents M, N and K, one of which is theirs instead.
    fn new(r: &mut Random, [m, n, k]: [i64; 3]) -> DrawnGroups {
        let (kind, count) = (r.one(&Groups::ALL), 1 + r.below(4_i64));
        let (numbers, extent) = groups::numbers(r, kind, count, &[3, 10, 40]);
        let (m, k) = match kind {
            Groups::AlongK => (m, extent),
            _ => (extent, k),
        };
        let problem = GroupProblem {
            kind,
            groups: count,
            m,
            n,
            k,
        };
        let spans = problem.spans(&numbers);
        DrawnGroups {
            problem,
            numbers,
            spans,
        }
    }

    /// The numbers of the products in A and B that the element in row `i` of product `product` of C is of, and its part of K. None of
    /// a row that belongs to no group.
    fn part_of(&self, i: i64, product: i64) -> Option<([i64; 2], Range<i64>)> {
        let k = 0..self.problem.k;
        match self.problem.kind {
            Groups::Rows => {
                let group = self.spans.iter().position(|span| span.contains(&i))?;
                Some(([0, group as i64], k))
            }
            Groups::Masked => {
                let is_there = self.spans[product as usize].contains(&i);
                is_there.then_some(([product; 2], k))
            }
            _ => Some(([0; 2], self.spans[product as usize].clone())),
        }
    }
}

/// Whether a device has a kernel for factors of a type.
fn multiplies(method: GemmMethod, arch: Arch, ty: Ty) -> bool {
    match method {
        GemmMethod::Simt => true,
        GemmMethod::Volta => ty == Ty::F16,
        GemmMethod::Gemv => matches!(ty, Ty::F16 | Ty::Bf16 | Ty::F32),
        GemmMethod::Ampere => {
            arch >= Arch::Sm80 && matches!(ty, Ty::F16 | Ty::Bf16 | Ty::S8 | Ty::F64)
        }
        // f32 is multiplied as tf32.
        GemmMethod::Hopper => {
            arch == Arch::Sm90a && matches!(ty, Ty::F16 | Ty::Bf16 | Ty::F32 | Ty::S8)
        }
    }
}

/// Elements of a type in memory.
enum OutputBuffer {
    F64(Buffer<f64>),
    F32(Buffer<f32>),
    F16(Buffer<f16>),
    Bf16(Buffer<bf16>),
    S64(Buffer<i64>),
    U64(Buffer<u64>),
    S32(Buffer<i32>),
    U32(Buffer<u32>),
    S16(Buffer<i16>),
    U16(Buffer<u16>),
    S8(Buffer<i8>),
    U8(Buffer<u8>),
}

macro_rules! with {
    ($memory:expr, $buffer:ident => $body:expr) => {
        match $memory {
            OutputBuffer::F64($buffer) => $body,
            OutputBuffer::F32($buffer) => $body,
            OutputBuffer::F16($buffer) => $body,
            OutputBuffer::Bf16($buffer) => $body,
            OutputBuffer::S64($buffer) => $body,
            OutputBuffer::U64($buffer) => $body,
            OutputBuffer::S32($buffer) => $body,
            OutputBuffer::U32($buffer) => $body,
            OutputBuffer::S16($buffer) => $body,
            OutputBuffer::U16($buffer) => $body,
            OutputBuffer::S8($buffer) => $body,
            OutputBuffer::U8($buffer) => $body,
        }
    };
}

fn typed<X: Element>(device: &Device, words: &[u64]) -> Result<Buffer<X>, colex_gpu::Error> {
    let bytes = words
        .iter()
        .flat_map(|word| word.to_le_bytes()[..X::BYTES].to_vec());
    Ok(device.upload(&X::from_bytes(&bytes.collect::<Vec<u8>>()))?)
}

fn words_of<X: Element>(buffer: &Buffer<X>, ty: Ty) -> Result<Vec<u64>, colex_gpu::Error> {
    Ok(words(ty, &X::to_bytes(&buffer.download()?)))
}

impl OutputBuffer {
    fn of(device: &Device, ty: Ty, words: &[u64]) -> Result<OutputBuffer, colex_gpu::Error> {
        Ok(match ty {
            Ty::F64 => OutputBuffer::F64(typed(device, words)?),
            Ty::F32 | Ty::Tf32 => OutputBuffer::F32(typed(device, words)?),
            Ty::F16 => OutputBuffer::F16(typed(device, words)?),
            Ty::Bf16 => OutputBuffer::Bf16(typed(device, words)?),
            Ty::S64 => OutputBuffer::S64(typed(device, words)?),
            Ty::U64 => OutputBuffer::U64(typed(device, words)?),
            Ty::S32 => OutputBuffer::S32(typed(device, words)?),
            Ty::U32 => OutputBuffer::U32(typed(device, words)?),
            Ty::S16 => OutputBuffer::S16(typed(device, words)?),
            Ty::U16 => OutputBuffer::U16(typed(device, words)?),
            Ty::S8 => OutputBuffer::S8(typed(device, words)?),
            _ => OutputBuffer::U8(typed(device, words)?),
        })
    }
}

/// A layout of `(m,n)` that has each element once: rows or columns contiguous with room between them, or columns in groups.
fn injective(r: &mut Random, m: i64, n: i64) -> Layout {
    let room = r.one(&[0, 0, 1, 4, 8]);
    match r.below(6) {
        0 => Layout::new((m, n), (1, m + room)),
        1 => Layout::new((m, n), (2 * n + room, 2)),
        // Heads: groups of columns far apart.
        2 if n % 8 == 0 => Layout::new((m, (8, n / 8)), (8, (1, 8 * m + room))),
        3 if m % 2 == 0 => {
            let column = n + room;
            Layout::new(((2, m / 2), n), ((m / 2 * column, column), 1))
        }
        _ => Layout::new((m, n), (n + room, 1)),
    }
    .expect("a layout")
}

/// Any layout of `(m,n)`: also of stride 0.
fn any(r: &mut Random, m: i64, n: i64) -> Layout {
    match r.below(6) {
        0 => Layout::new((m, n), (0, 1)),
        1 => Layout::new((m, n), (1, 0)),
        2 => Layout::new((m, n), (0, 0)),
        3 if n % 4 == 0 => Layout::new((m, (4, n / 4)), (0, (0, 1))),
        _ => return injective(r, m, n),
    }
    .expect("a layout")
}

/// A layout of matrices followed by the modes of a batch, in any order of strides; where they are only read, all products may
/// have one matrix.
fn batched(r: &mut Random, matrix: &Layout, behind: &[i64], is_read: bool) -> Layout {
    let mut next = matrix.cosize().expect("a size") + r.one(&[0, 0, 8, 3]);
    if r.below(3) > 0 {
        next = (next + 15) / 16 * 16;
    }
    let mut strides = vec![0; behind.len()];
    let all_read = is_read && r.below(4) == 0;
    for at in r.permutation(behind.len()) {
        let is_shared = all_read || is_read && r.below(3) == 0;
        if !is_shared {
            strides[at] = next;
            next = next * behind[at] + r.one(&[0, 0, 16]);
        }
    }
    let modes = behind.iter().zip(&strides);
    let modes = modes.map(|(extent, stride)| Layout::leaf(*extent, *stride).expect("a mode"));
    let all: Vec<Layout> = matrix.modes().chain(modes).collect();
    Layout::concat(&all).expect("a layout")
}

fn is_nan(ty: Ty, bits: u64) -> bool {
    FloatFormat::of(ty).is_some_and(|of| of.decode(bits).is_nan())
}

/// The type of the accumulators of factors of a type.
fn sums(ty: Ty) -> Ty {
    match ty {
        Ty::F64 => Ty::F64,
        Ty::S8 | Ty::S32 => Ty::S32,
        _ => Ty::F32,
    }
}

/// A formula of exact instructions; or of others too, where inner elements may be what a function makes of formulas, and so what
/// other functions are of. Some formulas end with a conversion: as it is, saturating, or by one of the roundings of its types.
fn with_functions(
    r: &mut Random,
    types: &[Ty],
    (ty, approximate): (Ty, bool),
    depth: usize,
) -> Expr {
    if r.below(4) == 0 {
        let from = r.one(&[Ty::F32, Ty::F32, Ty::F64, Ty::F16, Ty::S32]);
        let ways = conversions(from, ty);
        let way = ways[r.below(ways.len())].clone();
        let converted = formula(r, types, (from, approximate), depth);
        return way.over(vec![converted]);
    }
    if !approximate || r.below(2) == 0 {
        return formula(r, types, (ty, approximate), depth);
    }
    let mut inputs: Vec<Expr> = (types.iter().enumerate())
        .map(|(i, ty)| Expr::input(i, *ty))
        .collect();
    let mut types = types.to_vec();
    for _ in 0..1 + r.below(2) {
        let own = r.one(&[Ty::F32, Ty::F32, Ty::F16, Ty::Bf16]);
        let x = formula(r, &types, (own, true), depth / 2).over(inputs.clone());
        let all = functions(&x).into_iter().map(|(made, _)| made);
        let more = [x.erf(), x.tanh(), x.log(), x.clamp(-1.0, 1.0).exp()];
        let all: Vec<Expr> = all.chain(more).collect();
        let made = all[r.below(all.len())].clone();
        types.push(own);
        inputs.push(made);
    }
    formula(r, &types, (ty, true), depth).over(inputs)
}

/// An epilogue with random inputs, outputs and formulas; approximate instructions only on the simulator, which computes them
/// as the host does. Products in groups have no vectors, and those of lists no output beside C.
fn drawn(
    device: &Device,
    r: &mut Random,
    (sums, c): (Ty, Ty),
    products: Products,
) -> Result<Epilogue, String> {
    let kinds = TYPES.into_iter().filter(|ty| is_there(device.arch(), *ty));
    let kinds: Vec<Ty> = kinds.collect();
    let is_list = products == Products::Lists;
    let (reads_c, is_gated) = (r.below(3) == 0, r.below(3) == 0 && !is_list);
    // What TMA brings in the place of C has its type.
    let of_tensor = |r: &mut Random| {
        if kinds.contains(&c) && r.one_in(4) {
            c
        } else {
            r.one(&kinds)
        }
    };
    let tensors: Vec<Ty> = (0..r.below(3)).map(|_| of_tensor(r)).collect();
    let scalars: Vec<Ty> = (0..r.below(2))
        .map(|_| r.one(&[Ty::F32, Ty::F64, Ty::S32]))
        .collect();
    let second = (r.below(2) == 0 && !is_list).then(|| r.one(&kinds));
    let vectors: Vec<(usize, Ty, bool)> = match r.below(3) {
        0 if products == Products::Batch => (0..1 + r.below(3))
            .map(|_| (r.below(4), r.one(&VECTORS), r.below(2) == 0))
            .collect(),
        _ => Vec::new(),
    };
    let (depth, approximate) = (1 + r.below(6), device.is_simulator());
    let has_coordinates = r.below(4) == 0;
    let built = Epilogue::new(sums, |e| {
        let mut types = vec![sums];
        if is_gated {
            e.second_accumulator();
            types.push(sums);
        }
        if reads_c {
            e.c(c);
            types.push(c);
        }
        if has_coordinates {
            e.row();
            e.column();
            types.extend([Ty::S32; 2]);
        }
        for (i, ty) in tensors.iter().enumerate() {
            e.tensor(&format!("in{i}"), *ty);
            types.push(*ty);
        }
        for (i, ty) in scalars.iter().enumerate() {
            e.scalar(&format!("s{i}"), *ty);
            types.push(*ty);
        }
        if let Some(ty) = second {
            e.output(
                "second",
                with_functions(r, &types, (ty, approximate), depth),
            );
        }
        let of_c = with_functions(r, &types, (c, approximate), depth);
        for (i, (kind, ty, is_of_c)) in vectors.iter().enumerate() {
            let name = format!("v{i}");
            // The elements are those of C, or the product stores them for the vector.
            let element = if *is_of_c && VECTORS.contains(&c) {
                of_c.clone()
            } else {
                formula(r, &types, (*ty, approximate), depth.min(3))
            };
            match kind {
                0 => e.row_sums(&name, element),
                1 => e.row_maxima(&name, element),
                2 => e.column_sums(&name, element),
                _ => e.column_maxima(&name, element),
            }
        }
        of_c
    });
    let epilogue = built.map_err(|error| error.to_string())?;
    let read = epilogue.to_string().parse::<Epilogue>();
    if read.as_ref().ok() != Some(&epilogue) {
        return Err(format!("{epilogue} is read as {read:?}"));
    }
    Ok(epilogue)
}

/// A function of the accumulators and a bias, between -8 and 8, and its relative error on a GPU.
fn activation(function: usize, (sums, c): (Ty, Ty)) -> Result<(Epilogue, f64), String> {
    let mut tolerance = 0.0;
    let built = Epilogue::new(sums, |e| {
        let x = e.accumulator().to(Ty::F32).clamp(-64.0, 64.0) * 0.0625;
        let x = e.tensor("in0", Ty::S8).to(Ty::F32).fma(0.03125, x);
        let (y, error) = functions(&x).swap_remove(function);
        tolerance = error;
        e.output("argument", x.to(c));
        y.to(c)
    });
    Ok((built.map_err(|error| error.to_string())?, tolerance))
}

/// Elements of a type in memory and as bits, by a layout.
struct Matrix {
    ty: Ty,
    layout: Layout,
    memory: OutputBuffer,
    before: Vec<u64>,
}

impl Matrix {
    fn new(
        device: &Device,
        r: &mut Random,
        ty: Ty,
        layout: Layout,
    ) -> Result<Matrix, colex_gpu::Error> {
        let count = layout.cosize().map_err(colex_tensor::Error::from)?;
        let before: Vec<u64> = (0..count).map(|_| element(r, ty)).collect();
        let memory = OutputBuffer::of(device, ty, &before)?;
        Ok(Matrix {
            ty,
            layout,
            memory,
            before,
        })
    }

    /// What lies where the element of an index does.
    fn at(&self, words: &[u64], index: i64) -> u64 {
        words[self.layout.at(index).expect("an offset") as usize]
    }
}

/// Whether an epilogue is one of two right factors.
fn is_gated(epilogue: &Epilogue) -> bool {
    let mut inputs = epilogue.inputs();
    inputs.any(|input| input.kind == EpilogueInputKind::SecondAccumulator)
}

/// The layout of one matrix of several.
fn matrix_of(all: &Layout) -> Layout {
    all.select(&[0, 1]).expect("two modes")
}

/// The memory from the first element of each of `count` matrices of `size` elements on.
fn listed<X: Element>(
    all: &Buffer<X>,
    layout: &Layout,
    size: i64,
    count: i64,
) -> Result<Vec<Buffer<X>>, colex_gpu::Error> {
    let from = |product: i64| {
        let first = layout.at(size * product).expect("an offset");
        Ok(all.slice(first as usize..)?)
    };
    (0..count).map(from).collect()
}

/// Whether a kernel of several widths computes a product with one right factor and these matrices, of these extents of C.
fn takes_widths(operands: &Operands, swap: bool, extents: [i64; 2]) -> bool {
    let bits = i64::from(operands.c.bits());
    let along = match operands.majors[2] {
        Major::First => extents[0],
        Major::Second => extents[1],
    };
    // What the kernel sees as B.
    operands.majors[usize::from(!swap)] == Major::Second
        && !operands.beta
        && !operands.gated
        && [16, 32].contains(&bits)
        && operands.vectors[2] * bits == 128
        && along % operands.vectors[2] == 0
}

/// One epilogue over one random product. The number of elements that were compared, each within `tolerance`; 0 where the
/// architecture does not have an instruction of it.
fn run<T: GemmElement, C: GemmElement>(
    device: &Device,
    r: &mut Random,
    (epilogue, only): (&Epilogue, Option<Numbers>),
    (products, tolerance): (Products, f64),
) -> Result<usize, String> {
    let is_list = products == Products::Lists;
    let fitting = PLANS.into_iter().filter(|plan| products.take(plan));
    let fitting: Vec<Numbers> = fitting
        .filter(|(method, ..)| multiplies(*method, device.arch(), T::TY))
        .collect();
    let drawn = fitting[r.below(fitting.len())];
    let (method, mut tile, warps, cluster, split, way) = only.unwrap_or(drawn);
    let (mut rows, mut columns) = (vec![1, 3, 8, 16, 24, 40], vec![1, 2, 8, 16, 32, 40, 66]);
    if !device.is_simulator() {
        rows.extend([136, 200, 513]);
        columns.extend([136, 264, 515]);
    }
    let (m, n) = (r.one(&rows), r.one(&columns));
    // Rows of bytes are whole vectors too.
    let k = match T::BYTES {
        1 => 16 * (1 + r.below(7_i64)),
        _ => 8 * (1 + r.below(7_i64)),
    };
    let of_groups = (products == Products::Groups).then(|| DrawnGroups::new(r, [m, n, k]));
    let GroupProblem { m, n, k, .. } = match &of_groups {
        Some(of_groups) => of_groups.problem,
        None => GroupProblem {
            kind: Groups::Rows,
            groups: 1,
            m,
            n,
            k,
        },
    };
    let text = |error: colex_gpu::Error| error.to_string();
    // Small integers, so that every sum is exact in every order.
    let small = |r: &mut Random, count: i64| -> Vec<T> {
        (0..count)
            .map(|_| T::from_f64(r.below(5_i64) as f64 - 2.0))
            .collect()
    };
    let has_mode = of_groups
        .as_ref()
        .map(|own| groups::modes(own.problem.kind));
    let groups_of = |operand: usize| -> Option<i64> {
        let own = of_groups.as_ref()?;
        has_mode?[operand].then_some(own.problem.groups)
    };
    // Half of the products are batches.
    let behind: Vec<i64> = match (products, r.below(6)) {
        (Products::Groups, _) => groups_of(2).into_iter().collect(),
        (Products::Lists, _) => vec![r.one(&[1, 2, 3])],
        (Products::Batch, modes @ 0..3) => (0..modes + 1).map(|_| r.one(&[1, 2, 3])).collect(),
        (Products::Batch, _) => Vec::new(),
    };
    // All products of a list have one tensor.
    let of_tensors = if is_list { &[] } else { &behind[..] };
    let factor = |r: &mut Random, rows: i64, operand: usize| {
        if of_groups.is_some() {
            return groups::layout(r, [rows, k], groups_of(operand));
        }
        let one = match r.below(5) {
            // Every second row.
            3 => Layout::new((rows, k), (2 * k, 1)),
            0 => Layout::new((rows, k), (1, (rows + 7) / 8 * 8)),
            1 => Layout::new((rows, k), (k + 8, 1)),
            _ => Layout::new((rows, k), (k, 1)),
        }
        .expect("a layout");
        batched(r, &one, &behind, true)
    };
    let (layout_of_a, layout_of_b) = (factor(r, m, 0), factor(r, n, 1));
    let count = |layout: &Layout| layout.cosize().expect("a size");
    // A second right factor lies anywhere in the memory of the first: behind it, or row by row between its rows.
    let is_gated = is_gated(epilogue);
    if is_gated && T::TY == Ty::F64 {
        // A thread has room for as many accumulators of each.
        tile[0] = tile[0].min(32);
    }
    let whole = (count(&layout_of_b) + 15) / 16 * 16;
    let second = if is_gated {
        r.one(&[whole, whole, 8 * k, k, 1, 0])
    } else {
        0
    };
    let (of_a, of_b) = (
        small(r, count(&layout_of_a)),
        small(r, count(&layout_of_b) + second),
    );
    let [a, b] = [&of_a, &of_b].map(|elements| device.upload(elements));
    let (a, b) = (
        a.map_err(|e| text(e.into()))?,
        b.map_err(|e| text(e.into()))?,
    );
    let of_c = match r.below(3) {
        // C in groups or of a list is not packed.
        _ if products != Products::Batch => groups::layout(r, [m, n], None),
        0 => injective(r, m, n),
        _ => Layout::new((m, n), (n, 1)).expect("a layout"),
    };
    let is_contiguous = of_c
        .leaves()
        .iter()
        .any(|l| l.stride.coefficient().value() == 1);
    if only.is_some() && !is_contiguous {
        // C would be packed, by another plan.
        return Ok(0);
    }
    let of_c = batched(r, &of_c, &behind, false);
    let mut outputs = Vec::new();
    for (i, output) in epilogue.outputs().enumerate() {
        let layout = match i {
            0 => of_c.clone(),
            _ if r.one_in(4) => of_c.clone(),
            _ => {
                let one = injective(r, m, n);
                batched(r, &one, &behind, false)
            }
        };
        outputs.push(Matrix::new(device, r, output.formula.ty(), layout).map_err(text)?);
    }
    let mut vectors = Vec::new();
    for one in epilogue.reductions() {
        let extent = rows_and_length(one.kind, [m, n])[0];
        let stride = r.one(&[1, 1, 2, 5]);
        let one_of = Layout::concat(&[Layout::leaf(extent, stride).expect("a mode")]);
        let layout = batched(r, &one_of.expect("a layout"), &behind, false);
        vectors.push(Matrix::new(device, r, one.formula.ty(), layout).map_err(text)?);
    }
    let (mut tensors, mut scalars) = (Vec::new(), Vec::new());
    for input in epilogue.inputs() {
        match input.kind {
            EpilogueInputKind::Tensor => {
                // In the order of C, a tensor of its type goes where C is staged.
                let is_as_c = r.one_in(if input.ty == C::TY { 2 } else { 8 });
                let layout = if is_as_c && is_list {
                    matrix_of(&of_c)
                } else if is_as_c {
                    of_c.clone()
                } else {
                    let one = any(r, m, n);
                    batched(r, &one, of_tensors, true)
                };
                let matrix = Matrix::new(device, r, input.ty, layout).map_err(text)?;
                tensors.push((&input.name, matrix));
            }
            EpilogueInputKind::Scalar => scalars.push((&input.name, r.below(9_i64) as f64 - 4.0)),
            EpilogueInputKind::Accumulator
            | EpilogueInputKind::SecondAccumulator
            | EpilogueInputKind::C
            | EpilogueInputKind::Row
            | EpilogueInputKind::Column
            | EpilogueInputKind::Closure => {}
        }
    }
    // A plan of small tiles, or the one that the call finds.
    let swaps = matches!(method, GemmMethod::Hopper | GemmMethod::Gemv);
    let swap = swaps && products == Products::Batch && !is_gated && r.below(3) == 0;
    let own = (only.is_some() || r.below(5) > 0) && is_contiguous;
    let kind_and_numbers = |own: &DrawnGroups| (own.problem.kind, own.numbers.clone());
    let numbers = of_groups.as_ref().map(kind_and_numbers);
    let said = |why: &str| {
        format!(
            "{epilogue}, {method} on {}, {products:?} {numbers:?} of {m}x{n}x{k} of {}, {layout_of_a} and {layout_of_b}, second behind {second}, into {of_c}: {why}",
            device.arch(),
            T::TY
        )
    };
    let mut c = typed::<C>(device, &outputs[0].before).map_err(text)?;
    let mut done = || -> Result<(), colex_gpu::Error> {
        let count = if is_list { behind[0] } else { 0 };
        let listed_a = listed(&a, &layout_of_a, m * k, count)?;
        let listed_b = listed(&b, &layout_of_b, n * k, count)?;
        let mut listed_c = listed(&c, &of_c, m * n, count)?;
        let numbers = device.upload(of_groups.as_ref().map_or(&[][..], |own| &own.numbers))?;
        let (of_a, of_b);
        let views: [Vec<View<'_, T>>; 2];
        let written: Vec<ViewMut<'_, C>>;
        let gemm = if is_list {
            let all = [(&listed_a, &layout_of_a), (&listed_b, &layout_of_b)];
            let [of_a, of_b] = all.map(|(all, layout)| {
                let one = matrix_of(layout);
                let views = all.iter().map(|memory| View::new(memory, &one));
                views.collect::<Result<Vec<View<'_, T>>, _>>()
            });
            views = [of_a?, of_b?];
            let one = matrix_of(&of_c);
            let all = listed_c.iter_mut().map(|memory| ViewMut::new(memory, &one));
            written = all.collect::<Result<_, _>>()?;
            Gemm::lists(&views[0], &views[1], &written)?
        } else {
            (of_a, of_b) = (View::new(&a, &layout_of_a)?, View::new(&b, &layout_of_b)?);
            written = vec![ViewMut::new(&mut c, &of_c)?];
            Gemm::new(&of_a, &of_b, &written[0])
        };
        let mut gemm = gemm.epilogue(epilogue);
        if let Some(own) = &of_groups {
            gemm = gemm.groups(own.problem.kind, &numbers.view(numbers.len() as i64)?);
        }
        if method == GemmMethod::Hopper && T::TY == Ty::F32 {
            gemm = gemm.compute(Compute::Tf32);
        }
        let behind = b.slice(second as usize..)?;
        if is_gated {
            gemm = gemm.b2(&View::new(&behind, &layout_of_b)?);
        }
        for (name, Matrix { memory, layout, .. }) in &tensors {
            gemm = with!(memory, buffer => gemm.tensor(name, &View::new(buffer, layout)?));
        }
        for (name, number) in &scalars {
            gemm = gemm.scalar(name, *number);
        }
        for (output, matrix) in epilogue.outputs().zip(&mut outputs).skip(1) {
            let (name, layout) = (&output.name, &matrix.layout);
            gemm = with!(&mut matrix.memory, buffer => gemm.output(name, &ViewMut::new(buffer, layout)?));
        }
        for (one, matrix) in epilogue.reductions().zip(&mut vectors) {
            let (name, layout) = (&one.name, &matrix.layout);
            gemm = with!(&mut matrix.memory, buffer => gemm.output(name, &ViewMut::new(buffer, layout)?));
        }
        let [bm, bn, halves] = tile;
        let bk = match method {
            GemmMethod::Hopper => 2 * halves / T::BYTES as i64,
            _ => halves,
        };
        // A plan of the draw has one width where the kernel of several does not take the product.
        let is_one = behind.is_empty() && of_groups.is_none();
        let columns_of = |operands: &Operands| match way.columns {
            columns if is_one && takes_widths(operands, swap, [m, n]) => columns,
            _ => 0,
        };
        let plan = |operands| {
            let plan = GemmPlan {
                tile: [bm, bn, bk],
                columns: columns_of(&operands),
                warps,
                schedule: way.schedule,
                cluster,
                swap,
                split,
                division: way.division,
                stages: 2,
                ..GemmPlan::new(method, operands)
            };
            let is_along_k = |own: &DrawnGroups| own.problem.kind == Groups::AlongK;
            let mut plan = plan;
            if method != GemmMethod::Hopper && of_groups.as_ref().is_some_and(is_along_k) {
                // A part of K that begins anywhere has no vectors along it for threads.
                for operand in [0, 1] {
                    if plan.operands.majors[operand] == Major::Second {
                        plan.operands.vectors[operand] = 1;
                    }
                }
            }
            let is_masked = |own: &DrawnGroups| own.problem.kind == Groups::Masked;
            if method != GemmMethod::Hopper
                && of_groups.as_ref().is_some_and(is_masked)
                && plan.operands.majors[2] == Major::First
            {
                // The last row of a group lies anywhere along M.
                plan.operands.vectors[2] = 1;
            }
            let is_of_rows = |own: &DrawnGroups| own.problem.kind == Groups::Rows;
            if of_groups.as_ref().is_some_and(is_of_rows) {
                // A group of rows that begins anywhere has none along M. Hopper's kernel then takes no such A, and stores no C by TMA.
                for operand in [0, 2] {
                    if plan.operands.majors[operand] == Major::First {
                        plan.operands.vectors[operand] = 1;
                    }
                }
            }
            match method {
                GemmMethod::Gemv => {
                    let [_, n, k] = plan.steps();
                    // Clusters begin with Hopper.
                    let has_clusters = device.arch() >= Arch::Sm90;
                    GemmPlan {
                        tile: [bm, n, k],
                        stages: 1,
                        cluster: if has_clusters { cluster } else { [1; 3] },
                        ..plan
                    }
                }
                _ => plan,
            }
        };
        let call = if own {
            gemm.prepare_with(|operands, _| Ok(plan(operands)))?
        } else {
            gemm.prepare()?
        };
        call.run(device)
    };
    if let Err(error) = done() {
        let why = error.to_string();
        let known = [
            "fma of bf16",
            "came with sm_",
            "does not multiply",
            "in vectors of 16",
        ];
        let is_of_widths = only.is_some() && why.contains("the plan's kernel has several widths");
        if is_of_widths {
            return Ok(0);
        }
        if known.iter().any(|known| why.contains(known)) {
            return Ok(0);
        }
        return Err(said(&why));
    }
    let mut found = vec![words_of(&c, C::TY).map_err(text)?];
    for matrix in &outputs[1..] {
        found.push(with!(&matrix.memory, buffer => words_of(buffer, matrix.ty)).map_err(text)?);
    }
    let formulas: Vec<Expr> = epilogue.outputs().map(|o| o.formula.expr()).collect();
    let exact = |ty: Ty, x: f64| match FloatFormat::of(ty) {
        Some(of) => of.encode(x, Rounding::Nearest),
        None => x as i64 as u64 & 0xffff_ffff,
    };
    let mut count = 0;
    let mut elements: Vec<Vec<u64>> = vec![Vec::new(); vectors.len()];
    let reduced: Vec<Expr> = epilogue
        .reductions()
        .map(|one| one.formula.expr())
        .collect();
    for at in 0..m * n * behind.iter().product::<i64>() {
        let (i, j, product) = (at % m, at / m % n, at / m / n);
        let part = match &of_groups {
            Some(own) => own.part_of(i, product),
            None => Some(([product; 2], 0..k)),
        };
        let Some(([in_a, in_b], part)) = part else {
            for (matrix, words) in outputs.iter().zip(&found) {
                let [found, before] = [words, &matrix.before].map(|words| matrix.at(words, at));
                if found != before {
                    return Err(said(&format!(
                        "element ({i},{j}) of product {product} belongs to no group, and is {found:#x} after {before:#x}"
                    )));
                }
                count += 1;
            }
            continue;
        };
        let term = |l: i64, second: i64| {
            let a = layout_of_a.at(i + m * (l + k * in_a)).expect("an offset");
            let b = layout_of_b.at(j + n * (l + k * in_b)).expect("an offset");
            of_a[a as usize].to_f64() * of_b[(b + second) as usize].to_f64()
        };
        // From 0 on, as in registers: `Iterator::sum` of floats begins with -0, the sum of a group without terms.
        let sum = |second: i64| {
            let terms = part.clone().map(|l| term(l, second));
            terms.fold(0.0, |sum, term| sum + term)
        };
        let (mut matrices, mut numbers) = (tensors.iter(), scalars.iter());
        let inputs: Vec<u64> = epilogue
            .inputs()
            .map(|input| match input.kind {
                EpilogueInputKind::Accumulator => exact(sums(T::TY), sum(0)),
                EpilogueInputKind::SecondAccumulator => exact(sums(T::TY), sum(second)),
                EpilogueInputKind::C => outputs[0].at(&outputs[0].before, at),
                EpilogueInputKind::Row => i as u64,
                EpilogueInputKind::Column => j as u64,
                EpilogueInputKind::Closure => {
                    unreachable!("invariant: the host evaluates these epilogues")
                }
                EpilogueInputKind::Tensor => {
                    let (_, matrix) = matrices.next().expect("a tensor");
                    let at = if is_list { at % (m * n) } else { at };
                    matrix.at(&matrix.before, at)
                }
                EpilogueInputKind::Scalar => exact(input.ty, numbers.next().expect("a scalar").1),
            })
            .collect();
        for (elements, formula) in elements.iter_mut().zip(&reduced) {
            let element = formula.evaluate(&inputs);
            elements.push(element.map_err(|e| said(&e.to_string()))?);
        }
        for ((matrix, words), formula) in outputs.iter().zip(&found).zip(&formulas) {
            let wanted = formula
                .evaluate(&inputs)
                .map_err(|e| said(&e.to_string()))?;
            let (ty, found) = (matrix.ty, matrix.at(words, at));
            let alike = found == wanted
                || is_nan(ty, found) && is_nan(ty, wanted)
                || is_near(ty, [found, wanted], tolerance);
            if !alike {
                let plan = format!(
                    "tile {tile:?}, cluster {cluster:?}, {split} parts, {way:?}, swap {swap}, own {own}"
                );
                return Err(said(&format!(
                    "element ({i},{j}) of product {product}, {inputs:x?} is {found:#x}, and {wanted:#x} on the host ({plan})"
                )));
            }
            count += 1;
        }
    }
    let products = behind.iter().product::<i64>();
    for ((one, matrix), elements) in epilogue.reductions().zip(&vectors).zip(&elements) {
        let found = with!(&matrix.memory, buffer => words_of(buffer, matrix.ty)).map_err(text)?;
        let [rows, length] = rows_and_length(one.kind, [m, n]);
        for (row, product) in (0..rows).flat_map(|row| (0..products).map(move |p| (row, p))) {
            let at = |i: i64| match rows_and_length(one.kind, [0, 1])[0] {
                0 => row + m * (i + n * product),
                _ => i + m * (row + n * product),
            };
            let own: Vec<u64> = (0..length).map(|i| elements[at(i) as usize]).collect();
            let wanted = one.evaluate(&own).map_err(|e| said(&e.to_string()))?;
            let (ty, found) = (matrix.ty, matrix.at(&found, row + rows * product));
            if found != wanted && !(is_nan(ty, found) && is_nan(ty, wanted)) {
                return Err(said(&format!(
                    "number {row} of {} of product {product} is {found:#x}, and {wanted:#x} on the host",
                    one.name
                )));
            }
            count += 1;
        }
    }
    Ok(count)
}

/// How many numbers a vector has, and how many elements each is made of.
fn rows_and_length(kind: EpilogueReductionKind, [m, n]: [i64; 2]) -> [i64; 2] {
    match kind {
        EpilogueReductionKind::RowSums | EpilogueReductionKind::RowMaxima => [m, n],
        EpilogueReductionKind::ColumnSums | EpilogueReductionKind::ColumnMaxima => [n, m],
    }
}

/// A random epilogue, or the function of a number, over one random product.
fn case<T: GemmElement, C: GemmElement>(
    device: &Device,
    r: &mut Random,
    (function, products): (Option<usize>, Products),
) -> Result<usize, String> {
    let types = (sums(T::TY), C::TY);
    let (epilogue, tolerance) = match function {
        None => (drawn(device, r, types, products)?, 0.0),
        Some(function) => activation(function, types)?,
    };
    let tolerance = if device.is_simulator() {
        0.0
    } else {
        tolerance
    };
    run::<T, C>(device, r, (&epilogue, None), (products, tolerance))
}

type DrawnEpilogue = fn(&Device, &mut Random, (Option<usize>, Products)) -> Result<usize, String>;

/// The types of the factors and of C. The first of them are those of activations.
const CASES: [DrawnEpilogue; 12] = [
    case::<bf16, bf16>,
    case::<f16, f16>,
    case::<bf16, f32>,
    case::<f32, f32>,
    case::<i8, f16>,
    case::<f32, i8>,
    case::<f64, f64>,
    case::<i8, i32>,
    case::<i8, i8>,
    case::<f16, f32>,
    case::<f16, i8>,
    case::<bf16, f64>,
];

/// The number of types that are drawn for activations.
const ACTIVE: usize = 5;

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpilogueCount {
    /// Drawn epilogues that the architecture has.
    pub drawn: usize,
    /// Activations.
    pub activations: usize,
    /// Elements of outputs.
    pub elements: usize,
}

impl fmt::Display for EpilogueCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EpilogueCount {
            drawn,
            activations,
            elements,
        } = self;
        write!(
            f,
            "{elements} elements of {drawn} epilogues and {activations} activations"
        )
    }
}

/// Runs `rounds` random epilogues over random products, each on one of the devices, and each activation over two; compares
/// every element of every output with the host, bit for bit. On a GPU, activations have the error of their instructions.
///
/// # Errors
///
/// Returns the first difference, or why there is no result, in words.
pub fn check(devices: &[Device], seed: u64, rounds: usize) -> Result<EpilogueCount, String> {
    let (mut r, mut all) = (Random::new(seed), EpilogueCount::default());
    for number in 0..rounds {
        let (device, case) = (&devices[r.below(devices.len())], r.one(&CASES));
        let elements = case(device, &mut r, (None, Products::Batch));
        let elements = elements.map_err(|why| format!("epilogue {number}: {why}"))?;
        all.drawn += usize::from(elements > 0);
        all.elements += elements;
    }
    let functions = functions(&Expr::input(0, Ty::F32)).len();
    for (function, number) in (0..functions).flat_map(|i| (0..2).map(move |j| (i, 2 * i + j))) {
        let (device, case) = (&devices[number % devices.len()], CASES[number % ACTIVE]);
        let elements = case(device, &mut r, (Some(function), Products::Batch));
        let elements = elements.map_err(|why| format!("activation {function}: {why}"))?;
        all.activations += usize::from(elements > 0);
        all.elements += elements;
    }
    Ok(all)
}

/// Runs `rounds` random epilogues over random products in groups of every kind, and as many over lists of matrices, each on one of
/// the devices; compares every element of every output with the host, bit for bit, and those of no group with what they were.
///
/// # Errors
///
/// Returns the first difference, or why there is no result, in words.
pub fn check_parts(devices: &[Device], seed: u64, rounds: usize) -> Result<EpilogueCount, String> {
    let (mut r, mut all) = (Random::new(seed), EpilogueCount::default());
    for number in 0..2 * rounds {
        let products = [Products::Groups, Products::Lists][number % 2];
        let (device, case) = (&devices[r.below(devices.len())], r.one(&CASES));
        let elements = case(device, &mut r, (None, products));
        let elements = elements.map_err(|why| format!("epilogue {number}: {why}"))?;
        all.drawn += usize::from(elements > 0);
        all.elements += elements;
    }
    Ok(all)
}

/// Epilogues that read the coordinates of C: both as numbers beside a causal mask, a triangle of a gated product, dropout by a hash of
/// the coordinate, and a mask of bands whose rows and columns are summed.
fn of_coordinates(sums: Ty, c: Ty) -> Result<Vec<Epilogue>, String> {
    let of = |build: fn(&mut EpilogueBuilder, Ty) -> Expr| {
        Epilogue::new(sums, |e| build(e, c)).map_err(|error| error.to_string())
    };
    let causal = of(|e, c| {
        let (row, column) = (e.row(), e.column());
        e.output("place", &row * 4096 + &column);
        column.le(row).select(e.accumulator().to(c), -1.0)
    });
    let triangle = of(|e, c| {
        let product = e.accumulator() * e.second_accumulator();
        e.row()
            .lt(e.column())
            .select(product.to(Ty::F32), 0.0)
            .to(c)
    });
    let dropout = of(|e, c| {
        let seed = e.scalar("seed", Ty::S32).to(Ty::U32);
        let place = e.row().to(Ty::U32) * 0x9e37_79b1_u32 as i64 + e.column().to(Ty::U32) + seed;
        let once = (&place ^ (&place >> 15)) * 0x85eb_ca6b_u32 as i64;
        let hash = &once ^ (&once >> 13);
        (hash & 3)
            .equals(0)
            .select(0.0, e.accumulator().to(Ty::F32) * 1.25)
            .to(c)
    });
    let bands = of(|e, c| {
        let (row, column) = (e.row(), e.column());
        let kept = (&row / 4)
            .equals(&column / 4)
            .select(e.accumulator().to(Ty::F32), 0.0);
        e.row_sums("rows", kept.clone());
        e.column_maxima("columns", kept.clone() + row.to(Ty::F32));
        kept.to(c)
    });
    [causal, triangle, dropout, bands].into_iter().collect()
}

/// Runs every small plan of every kernel with epilogues that read the coordinates of C, on the devices that have the kernel, and
/// compares with the host, bit for bit. A soak takes every type by every plan. Returns the number of elements.
///
/// # Errors
///
/// Returns the first difference, or why there is no result, in words.
pub fn check_coordinates(devices: &[Device], seed: u64) -> Result<usize, String> {
    type Run = fn(
        &Device,
        &mut Random,
        (&Epilogue, Option<Numbers>),
        (Products, f64),
    ) -> Result<usize, String>;
    let cases: [(Ty, Ty, Run); 4] = [
        (Ty::F16, Ty::F16, run::<f16, f16>),
        (Ty::Bf16, Ty::F32, run::<bf16, f32>),
        (Ty::F32, Ty::F32, run::<f32, f32>),
        (Ty::S8, Ty::F16, run::<i8, f16>),
    ];
    let (mut r, mut all, mut number) = (Random::new(seed), 0, seed as usize);
    let mut of_ways = 0;
    for plan in PLANS {
        let mut seen = false;
        for device in devices {
            for (ab, c, run) in cases {
                if !multiplies(plan.0, device.arch(), ab) {
                    continue;
                }
                seen = true;
                if plan.5 != PLAIN {
                    // Of what large products take, half of the types of each plan.
                    of_ways += 1;
                    if !takes(2, of_ways + of_ways / 4) {
                        continue;
                    }
                }
                let mut epilogues = of_coordinates(sums(ab), c)?;
                if plan.5.columns != 0 {
                    epilogues.retain(|epilogue| !is_gated(epilogue));
                }
                let epilogue = &epilogues[number % epilogues.len()];
                number += 1;
                // Some layouts have no vectors that the kernel needs.
                let mut found = 0;
                for _ in 0..32 {
                    if found == 0 {
                        let plan = (epilogue, Some(plan));
                        found = run(device, &mut r, plan, (Products::Batch, 0.0))?;
                    }
                }
                if found == 0 {
                    let arch = device.arch();
                    return Err(format!("{epilogue} is refused by {plan:?} on {arch}"));
                }
                all += found;
            }
        }
        if !seen {
            return Err(format!("no device has the kernel of {plan:?}"));
        }
    }
    Ok(all)
}

//! The plan of a call depends on the call alone, and how a batch-invariant one sums does not depend on its rows.

use std::collections::HashMap;

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{ChunkOrder, Epilogue, GemmCall};
use colex_gpu::kernels::{GemmElement, GemmProblem};
use colex_gpu::{Buffer, Device, Gemm, View, ViewMut};
use colex_layout::Layout;
use colex_proof::soak::draws;
use colex_proof::sweep::Random;
use half::bf16;

/// What a call is besides its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Plain,
    /// Views with a third mode of extent 1.
    ThirdMode,
    /// Products that follow each other.
    Batch(i64),
    /// The same with one B.
    SharedB(i64),
    /// An epilogue that reads a tensor as large as C.
    Residual,
    /// One that reads the columns of a row.
    Bias,
    /// A batch with a residual.
    BatchWithResidual(i64),
    /// The products of a batch in an order that begins with the last.
    Chunks(i64),
    /// A residual that is there when a flag says so.
    Awaits,
}

const KINDS: [Kind; 9] = [
    Kind::Plain,
    Kind::ThirdMode,
    Kind::Batch(3),
    Kind::SharedB(5),
    Kind::Residual,
    Kind::Bias,
    Kind::BatchWithResidual(2),
    Kind::Chunks(2),
    Kind::Awaits,
];

impl Kind {
    fn products(self) -> i64 {
        match self {
            Kind::Plain | Kind::ThirdMode | Kind::Residual | Kind::Bias | Kind::Awaits => 1,
            Kind::Batch(count)
            | Kind::SharedB(count)
            | Kind::BatchWithResidual(count)
            | Kind::Chunks(count) => count,
        }
    }

    /// Whether the views have a mode behind those of the matrix.
    fn has_third_mode(self) -> bool {
        self == Kind::ThirdMode || self.products() > 1
    }

    fn has_one_b(self) -> bool {
        matches!(self, Kind::SharedB(_) | Kind::Chunks(_))
    }

    /// The strides of the epilogue's tensor along its rows and products, of this many columns.
    fn tensor(self, [m, n]: [i64; 2]) -> Option<[i64; 2]> {
        match self {
            Kind::Residual | Kind::Awaits | Kind::BatchWithResidual(_) => Some([n, m * n]),
            Kind::Bias => Some([0, 0]),
            Kind::Plain | Kind::ThirdMode => None,
            Kind::Batch(_) | Kind::SharedB(_) | Kind::Chunks(_) => None,
        }
    }
}

/// A product of row-major matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Product {
    extents: [i64; 3],
    kind: Kind,
    is_batch_invariant: bool,
}

/// What a product reads.
struct Read<'m> {
    a: &'m Buffer<bf16>,
    b: &'m Buffer<bf16>,
    tensor: &'m Buffer<bf16>,
}

impl Product {
    /// Prepares the product, and does something with the call.
    fn with<C: GemmElement, R>(
        &self,
        device: &Device,
        read: &Read<'_>,
        c: &mut Buffer<C>,
        work: impl FnOnce(&GemmCall<'_>) -> R,
    ) -> R {
        let ([m, n, k], count) = (self.extents, self.kind.products());
        let layout = |rows: i64, columns: i64, [down, apart]: [i64; 2]| {
            let layout = if self.kind.has_third_mode() {
                Layout::new((rows, columns, count), (down, 1, apart))
            } else {
                Layout::new((rows, columns), (down, 1))
            };
            layout.expect("a layout")
        };
        let of_b = if self.kind.has_one_b() { 0 } else { n * k };
        let a = View::new(read.a, layout(m, k, [k, m * k])).expect("A");
        let b = View::new(read.b, layout(n, k, [k, of_b])).expect("B");
        let c = ViewMut::new(c, layout(m, n, [n, m * n])).expect("C");
        let mut gemm = Gemm::new(&a, &b, &c);
        if self.is_batch_invariant {
            gemm = gemm.batch_invariant();
        }
        if let Kind::Chunks(count) = self.kind {
            gemm = gemm.chunks(ChunkOrder::Descending, count - 1);
        }
        let sum = Epilogue::new(Ty::F32, |e| {
            (e.accumulator() + e.tensor("other", Ty::Bf16).to(Ty::F32)).to(C::TY)
        });
        let sum = sum.expect("an epilogue");
        let flags = device.upload(&[1_u32, 1]).expect("memory");
        let flags = flags.view(2).expect("flags");
        if let Some(strides) = self.kind.tensor([m, n]) {
            let tensor = View::new(read.tensor, layout(m, n, strides)).expect("a tensor");
            gemm = gemm.epilogue(&sum).tensor("other", &tensor);
        }
        if self.kind == Kind::Awaits {
            gemm = gemm.awaits(&flags);
        }
        let call = gemm.prepare();
        work(&call.unwrap_or_else(|why| panic!("{self:?}: {why}")))
    }

    /// What a call on matrices of zeros does, and how it sums.
    fn said<C: GemmElement>(&self, device: &Device, zeros: &Buffer<bf16>) -> (String, String) {
        let [m, n, _] = self.extents;
        let count = m * n * self.kind.products();
        let mut c = device.zeros::<C>(count as usize).expect("memory");
        let read = Read {
            a: zeros,
            b: zeros,
            tensor: zeros,
        };
        self.with(device, &read, &mut c, |call| {
            (call.to_string(), self.way(call))
        })
    }

    /// How a call of the product sums: its kernel, how K is divided, and whether B is packed. A plan whose tiles are all whole has one part.
    fn way(&self, call: &GemmCall<'_>) -> String {
        let plan = call.plan().expect("a plan");
        let [m, n, k] = self.extents;
        let problem = GemmProblem {
            batch: self.kind.products(),
            ..GemmProblem::new(m, n, k)
        };
        let along_k = plan.cluster[2];
        let step = if along_k > 1 { plan.tile[2] } else { 0 };
        let packs = call.packed().any(|(name, _)| name == "B");
        let parts = if plan.workspace(&problem) == 0 {
            1
        } else {
            plan.split
        };
        format!(
            "{}, {along_k} blocks along K, step {step}, {parts} parts, B packed {packs}",
            plan.method
        )
    }

    /// The elements that the largest of its matrices has.
    fn elements(&self) -> i64 {
        let [m, n, k] = self.extents;
        let all = [m * k, n * k, m * n].map(|one| one * self.kind.products());
        all.into_iter().max().unwrap_or(0)
    }
}

fn zeros(device: &Device, products: &[Product]) -> Buffer<bf16> {
    let most = products.iter().map(Product::elements).max().unwrap_or(0);
    device.zeros(most as usize).expect("memory")
}

/// Prepares products in this order, some of them after the device has dropped what it kept, and compares what each is with what it is as the
/// first of its device.
fn in_order<C: GemmElement>(
    order: &[Product],
    clears: impl Fn(usize) -> bool,
    known: &mut HashMap<Product, (String, String)>,
) -> usize {
    let device = Device::simulator(Arch::Sm90a);
    let memory = zeros(&device, order);
    for (number, product) in order.iter().enumerate() {
        if clears(number) {
            device.clear_module_cache();
        }
        let found = product.said::<C>(&device, &memory);
        let first = known.entry(*product).or_insert_with(|| {
            let device = Device::simulator(Arch::Sm90a);
            let memory = zeros(&device, &[*product]);
            product.said::<C>(&device, &memory)
        });
        let before = &order[..number];
        assert_eq!(found, *first, "{product:?}, after {before:?}");
    }
    order.len()
}

/// The same in this order and in the other one, with all that the device keeps, without anything and with some of it.
fn in_both_orders<C: GemmElement>(
    products: &[Product],
) -> (usize, HashMap<Product, (String, String)>) {
    let mut known = HashMap::new();
    let mut cases = 0;
    let mut order = products.to_vec();
    for _ in 0..2 {
        cases += in_order::<C>(&order, |_| false, &mut known);
        cases += in_order::<C>(&order, |number| number % 3 == 1, &mut known);
        order.reverse();
    }
    (cases, known)
}

/// What a call packs and which plan it takes depends on the call alone: not on the calls before, of another number of products, with a tensor or
/// without one, or of views with a further mode of extent 1.
#[test]
fn law_a_plan_depends_on_the_call_alone() {
    let product = |extents: [i64; 3], kind: Kind, is_batch_invariant: bool| Product {
        extents,
        kind,
        is_batch_invariant,
    };
    let mut r = Random::of(3, "history");
    let mut halves = vec![
        product([640, 4096, 1024], Kind::Plain, false),
        product([640, 4096, 1024], Kind::ThirdMode, false),
        product([1, 576, 16384], Kind::ThirdMode, true),
        product([1, 576, 16384], Kind::Plain, true),
        product([2, 576, 16384], Kind::Plain, true),
    ];
    let mut floats = vec![
        product([64, 512, 4095], Kind::Batch(4), false),
        product([64, 512, 4095], Kind::Batch(16), false),
        product([64, 512, 4095], Kind::SharedB(16), false),
        product([1, 8, 4095], Kind::Batch(16), true),
        product([2, 8, 4095], Kind::Batch(2), true),
        product([2, 8, 4095], Kind::Batch(16), true),
    ];
    for number in 0..draws(4) {
        let k = r.one(&[1023, 1024, 4095, 777, 8200]);
        let extents = [r.one(&[1, 2, 64, 300]), 8 * (1 + r.below(64_i64)), k];
        let all = if number % 2 == 0 {
            &mut halves
        } else {
            &mut floats
        };
        for _ in 0..3 {
            let kind = r.one(&[
                Kind::Plain,
                Kind::ThirdMode,
                Kind::Batch(2),
                Kind::Batch(9),
                Kind::SharedB(9),
                Kind::Residual,
                Kind::Bias,
            ]);
            all.push(product(extents, kind, r.below(2) == 0));
        }
    }
    let (of_halves, _) = in_both_orders::<bf16>(&halves);
    let (of_floats, known) = in_both_orders::<f32>(&floats);
    let packs = |count: i64| {
        let product = product([64, 512, 4095], Kind::Batch(count), false);
        known[&product].0.starts_with("pack ")
    };
    assert_eq!([4, 16].map(packs), [false; 2]);
    let cases = of_halves + of_floats;
    println!("law gemm.plan_of_the_call_alone: {cases} cases");
}

/// A batch-invariant call sums in one way for any number of rows: of plain products and of those with a third mode of extent 1, of batches, of
/// epilogues that read tensors which vary along the rows, of chunks, and behind flags; in both orders of the numbers of rows.
#[test]
fn law_batch_invariant_calls_sum_in_one_way_whatever_they_are() {
    let mut r = Random::of(5, "invariant kinds");
    let numbers = [1, 2, 3, 40, 64, 65, 200];
    let mut cases = 0;
    let mut shapes = vec![[64, 1536], [40, 1536], [64, 64], [8, 8192]];
    shapes.extend((0..draws(2)).map(|_| [8 << r.below(4_i64), 64 << r.below(7_i64)]));
    for [n, k] in shapes {
        let mut products = Vec::new();
        for kind in KINDS {
            for m in numbers {
                products.push(Product {
                    extents: [m, n, k],
                    kind,
                    is_batch_invariant: true,
                });
            }
        }
        let (count, of_floats) = in_both_orders::<f32>(&products);
        let (other, of_halves) = in_both_orders::<bf16>(&products);
        cases += count + other;
        for (at, product) in products.iter().enumerate() {
            let one = &products[at / numbers.len() * numbers.len()];
            for known in [&of_floats, &of_halves] {
                let [own, one] = [product, one].map(|of| &known[of]);
                assert_eq!(own.1, one.1, "{product:?}: {}, of one row {}", own.0, one.0);
            }
        }
        // A mode of extent 1 changes nothing.
        let with = Product {
            extents: [1, n, k],
            kind: Kind::ThirdMode,
            is_batch_invariant: true,
        };
        let without = Product {
            kind: Kind::Plain,
            ..with
        };
        for known in [&of_floats, &of_halves] {
            assert_eq!(known[&with], known[&without], "{n}x{k}");
        }
    }
    println!("law gemm.batch_invariant_kinds: {cases} cases");
}

/// The numbers of a matrix of some products, row by row, of which a product has the first `rows`.
fn drawn(seed: i64, [products, rows, columns]: [i64; 3]) -> Vec<bf16> {
    let number = |product: i64, row: i64, column: i64| {
        let at = ((seed * 31 + product) * 977 + row) * 7919 + column;
        bf16::from_f64((at as f64 * 0.7311).sin())
    };
    let mut all = Vec::new();
    for product in 0..products {
        for row in 0..rows {
            all.extend((0..columns).map(|column| number(product, row, column)));
        }
    }
    all
}

/// The bits of the rows of a batch-invariant product are those of a product of more rows, of every kind.
#[test]
fn law_rows_of_batch_invariant_calls_have_the_same_bits_whatever_they_are() {
    let mut cases = 0;
    let more = [(Kind::Residual, [64, 1536]), (Kind::Residual, [40, 1536])];
    let all = KINDS.map(|kind| (kind, [64, 264]));
    for (kind, [n, k]) in all.into_iter().chain(more) {
        let device = Device::simulator(Arch::Sm90a);
        let count = kind.products();
        let of_b = if kind.has_one_b() { 1 } else { count };
        let b = device.upload(&drawn(2, [of_b, n, k])).expect("memory");
        let bits = |m: i64| -> Vec<Vec<u32>> {
            let a = device.upload(&drawn(1, [count, m, k])).expect("memory");
            let tensor = device.upload(&drawn(3, [count, m, n])).expect("memory");
            let length = (count * m * n) as usize;
            let mut c = device.poisoned::<f32>(length).expect("memory");
            let product = Product {
                extents: [m, n, k],
                kind,
                is_batch_invariant: true,
            };
            let read = Read {
                a: &a,
                b: &b,
                tensor: &tensor,
            };
            product.with(&device, &read, &mut c, |call| {
                call.run(&device)
                    .unwrap_or_else(|why| panic!("{product:?}: {why}"));
            });
            let found = c.download().expect("C");
            let of_products = found.chunks((m * n) as usize);
            of_products
                .map(|rows| rows.iter().map(|x| x.to_bits()).collect())
                .collect()
        };
        let whole = bits(66);
        for m in [1, 2, 17] {
            for (number, rows) in bits(m).into_iter().enumerate() {
                let wanted = &whole[number][..rows.len()];
                assert!(rows == wanted, "{kind:?}, {m}x{n}x{k}, product {number}");
                cases += 1;
            }
        }
    }
    println!("law gemm.batch_invariant_bits: {cases} cases");
}

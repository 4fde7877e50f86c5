//! Every call with the tensors that are rare and those that are mistakes: no elements, no modes, one element more, any strides, the stride 0,
//! addresses of one element, memory that overlaps, sizes beyond 32 bits. A call is right or says what is wrong.

use std::collections::BTreeSet;

use colex_atom::{Arch, Ty};
use colex_gpu::attention::Attention;
use colex_gpu::elementwise::{Gather, Map, MapExpression, Pairing, Rotary};
use colex_gpu::gemm::Convolution;
use colex_gpu::kernels::CopyCall;
use colex_gpu::quantise::Quantise;
use colex_gpu::reduce::scan::Scan;
use colex_gpu::reduce::top_k::TopK;
use colex_gpu::reduce::{Reduce, ReduceFunction};
use colex_gpu::rowwise::{RowFunction, Rowwise};
use colex_gpu::{Buffer, Device, Element, Error, Gemm, View, ViewMut};
use half::f16;

/// Memory of one of the types that the calls take here.
#[derive(Clone)]
enum Memory {
    F32(Buffer<f32>),
    S32(Buffer<i32>),
    S8(Buffer<i8>),
}

/// A tensor of a call.
#[derive(Clone)]
struct Tensor {
    memory: Memory,
    extents: Vec<i64>,
    strides: Vec<i64>,
}

fn row_major(extents: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; extents.len()];
    for at in (1..extents.len()).rev() {
        strides[at - 1] = strides[at] * extents[at].max(1);
    }
    strides
}

/// `(4,20):(20,1)`, `4:1`
fn layout(extents: &[i64], strides: &[i64]) -> String {
    let list = |all: &[i64]| match all {
        [one] => one.to_string(),
        _ => {
            let all: Vec<String> = all.iter().map(i64::to_string).collect();
            format!("({})", all.join(","))
        }
    };
    format!("{}:{}", list(extents), list(strides))
}

impl Tensor {
    fn view_of<'a, T: Element>(&self, buffer: &'a Buffer<T>) -> Result<View<'a, T>, Error> {
        let shape = layout(&self.extents, &self.strides);
        let (shape, _) = shape.split_once(':').expect("extents and strides");
        if self.extents.contains(&0) {
            return Ok(View::row_major(buffer, shape)?);
        }
        Ok(View::new(buffer, layout(&self.extents, &self.strides))?)
    }

    /// To write: through another handle, which is never dropped.
    fn view_mut_of<T: Element>(&self, buffer: &Buffer<T>) -> Result<ViewMut<'static, T>, Error> {
        let handle = Box::leak(Box::new(buffer.clone()));
        let shape = layout(&self.extents, &self.strides);
        let (shape, _) = shape.split_once(':').expect("extents and strides");
        if self.extents.contains(&0) {
            return Ok(ViewMut::row_major(handle, shape)?);
        }
        Ok(ViewMut::new(handle, layout(&self.extents, &self.strides))?)
    }

    fn f32(&self) -> Result<View<'_, f32>, Error> {
        let Memory::F32(buffer) = &self.memory else {
            panic!("elements of f32");
        };
        self.view_of(buffer)
    }

    fn f32_mut(&self) -> Result<ViewMut<'static, f32>, Error> {
        let Memory::F32(buffer) = &self.memory else {
            panic!("elements of f32");
        };
        self.view_mut_of(buffer)
    }

    fn s32(&self) -> Result<View<'_, i32>, Error> {
        let Memory::S32(buffer) = &self.memory else {
            panic!("elements of s32");
        };
        self.view_of(buffer)
    }

    fn s32_mut(&self) -> Result<ViewMut<'static, i32>, Error> {
        let Memory::S32(buffer) = &self.memory else {
            panic!("elements of s32");
        };
        self.view_mut_of(buffer)
    }

    fn s8_mut(&self) -> Result<ViewMut<'static, i8>, Error> {
        let Memory::S8(buffer) = &self.memory else {
            panic!("elements of s8");
        };
        self.view_mut_of(buffer)
    }

    /// The numbers at all coordinates, the last mode fastest.
    fn numbers(&self) -> Vec<f64> {
        let all: Vec<f64> = match &self.memory {
            Memory::F32(buffer) => {
                let all = buffer.download().expect("numbers");
                all.into_iter().map(f64::from).collect()
            }
            Memory::S32(buffer) => {
                let all = buffer.download().expect("numbers");
                all.into_iter().map(f64::from).collect()
            }
            Memory::S8(buffer) => {
                let all = buffer.download().expect("numbers");
                all.into_iter().map(f64::from).collect()
            }
        };
        places(&self.extents, &self.strides)
            .into_iter()
            .map(|at| all[at])
            .collect()
    }

    /// The same tensor one element further in its memory.
    fn shifted(&self) -> Tensor {
        fn behind<T: Element>(buffer: &Buffer<T>) -> Buffer<T> {
            buffer.slice(1..).expect("there is more memory")
        }
        let memory = match &self.memory {
            Memory::F32(buffer) => Memory::F32(behind(buffer)),
            Memory::S32(buffer) => Memory::S32(behind(buffer)),
            Memory::S8(buffer) => Memory::S8(behind(buffer)),
        };
        Tensor {
            memory,
            ..self.clone()
        }
    }
}

/// The offsets of all coordinates, the last mode fastest.
fn places(extents: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut all = vec![0];
    for (extent, stride) in extents.iter().zip(strides) {
        let next = |at: &i64| (0..*extent).map(|i| at + i * stride).collect::<Vec<_>>();
        all = all.iter().flat_map(next).collect();
    }
    all.into_iter().map(|at| at as usize).collect()
}

/// What is asked of a call.
#[derive(Clone, Copy, PartialEq)]
enum Ask {
    Prepare,
    Run,
}

/// An operand: its type, its modes by their numbers among the extents of the call, and whether it is an output.
type Operand = (Ty, &'static [usize], bool);

/// A call on tensors whose modes have common extents.
struct Entry {
    name: &'static str,
    extents: &'static [i64],
    operands: &'static [Operand],
    /// Outputs may lie exactly where the first input does.
    in_place: bool,
    call: fn(&[Tensor], Ask) -> Result<(), Error>,
    /// Loads the kernels of shapes of the first operand, if the call takes shapes.
    load: Option<Loads>,
}

/// Loads the kernels of a shape of the first operand, and answers how many there are.
type Loads = fn(&[Tensor], &[i64]) -> Result<usize, Error>;

const IN: bool = false;
const OUT: bool = true;

macro_rules! asked {
    ($call:expr, $ask:expr) => {{
        let call = $call;
        match $ask {
            Ask::Prepare => call.prepare().map(drop),
            Ask::Run => call.run(),
        }
    }};
}

fn add() -> MapExpression {
    let text = "(x: tensor f32, bias: tensor f32) -> y { add(x, bias) }";
    text.parse().expect("a map")
}

fn map(of: &[Tensor], then: impl FnOnce(Map<'_>) -> Result<(), Error>) -> Result<(), Error> {
    let (x, bias) = (of[0].f32()?, of[1].f32()?);
    let call = Map::new(&add()).input("x", &x).input("bias", &bias);
    then(call.output("y", &of[2].f32_mut()?))
}

/// All calls. The numbers are small integers, so that sums are exact in every order.
fn entries() -> Vec<Entry> {
    let mut all = vec![
        Entry {
            name: "softmax",
            extents: &[4, 20],
            operands: &[(Ty::F32, &[0, 1], IN), (Ty::F32, &[0, 1], OUT)],
            in_place: false,
            call: |of, ask| {
                let (x, y) = (of[0].f32()?, of[1].f32_mut()?);
                asked!(Rowwise::new(RowFunction::Softmax, &x, &y), ask)
            },
            load: None,
        },
        Entry {
            name: "log-softmax",
            extents: &[4, 20],
            operands: &[(Ty::F32, &[0, 1], IN), (Ty::F32, &[0, 1], OUT)],
            in_place: false,
            call: |of, ask| {
                let (x, y) = (of[0].f32()?, of[1].f32_mut()?);
                asked!(Rowwise::new(RowFunction::LogSoftmax, &x, &y), ask)
            },
            load: None,
        },
        Entry {
            name: "RMSNorm",
            extents: &[4, 20],
            operands: &[
                (Ty::F32, &[0, 1], IN),
                (Ty::F32, &[1], IN),
                (Ty::F32, &[0, 1], OUT),
            ],
            in_place: false,
            call: |of, ask| {
                let (x, weight, y) = (of[0].f32()?, of[1].f32()?, of[2].f32_mut()?);
                asked!(
                    Rowwise::new(RowFunction::RmsNorm, &x, &y).weight(&weight),
                    ask
                )
            },
            load: None,
        },
        Entry {
            name: "layer norm with a residual",
            extents: &[4, 20],
            operands: &[
                (Ty::F32, &[0, 1], IN),
                (Ty::F32, &[1], IN),
                (Ty::F32, &[1], IN),
                (Ty::F32, &[0, 1], IN),
                (Ty::F32, &[0, 1], OUT),
                (Ty::F32, &[0, 1], OUT),
            ],
            in_place: false,
            call: |of, ask| {
                let (x, weight, bias) = (of[0].f32()?, of[1].f32()?, of[2].f32()?);
                let (residual, y, sum) = (of[3].f32()?, of[4].f32_mut()?, of[5].f32_mut()?);
                let call = Rowwise::new(RowFunction::LayerNorm, &x, &y);
                let call = call.weight(&weight).bias(&bias).residual(&residual, &sum);
                asked!(call, ask)
            },
            load: None,
        },
        Entry {
            name: "rotary embedding",
            extents: &[2, 3, 5, 8],
            operands: &[(Ty::F32, &[0, 1, 2, 3], IN), (Ty::F32, &[0, 1, 2, 3], OUT)],
            in_place: true,
            call: |of, ask| {
                let (x, y) = (of[0].f32()?, of[1].f32_mut()?);
                asked!(Rotary::new(Pairing::Halves, &x, &y), ask)
            },
            load: Some(|of, shape| {
                let (x, y) = (of[0].f32()?, of[1].f32_mut()?);
                Rotary::new(Pairing::Halves, &x, &y).load_plans([shape])
            }),
        },
        Entry {
            name: "map",
            extents: &[4, 20],
            operands: &[
                (Ty::F32, &[0, 1], IN),
                (Ty::F32, &[0, 1], IN),
                (Ty::F32, &[0, 1], OUT),
            ],
            in_place: true,
            call: |of, ask| map(of, |call| asked!(call, ask)),
            load: Some(|of, shape| {
                let mut kernels = 0;
                map(of, |call| {
                    kernels = call.load_plans([shape])?;
                    Ok(())
                })?;
                Ok(kernels)
            }),
        },
        Entry {
            name: "gather",
            extents: &[4, 8, 10],
            operands: &[
                (Ty::S32, &[0], IN),
                (Ty::F32, &[2, 1], IN),
                (Ty::F32, &[0, 1], OUT),
            ],
            in_place: false,
            call: |of, ask| {
                let (index, table, out) = (of[0].s32()?, of[1].f32()?, of[2].f32_mut()?);
                let call = Gather::new(&table, &index, &out).prepare()?;
                match ask {
                    Ask::Prepare => Ok(()),
                    Ask::Run => call.run(out.device()),
                }
            },
            load: Some(|of, shape| {
                let (index, table, out) = (of[0].s32()?, of[1].f32()?, of[2].f32_mut()?);
                Gather::new(&table, &index, &out).load_plans([shape])
            }),
        },
        Entry {
            name: "sum",
            extents: &[4, 20],
            operands: &[(Ty::F32, &[0, 1], IN), (Ty::F32, &[0], OUT)],
            in_place: false,
            call: |of, ask| {
                let (x, y) = (of[0].f32()?, of[1].f32_mut()?);
                asked!(Reduce::new(ReduceFunction::Sum, &x, &[1], &y), ask)
            },
            load: Some(|of, shape| {
                let (x, y) = (of[0].f32()?, of[1].f32_mut()?);
                Reduce::new(ReduceFunction::Sum, &x, &[1], &y).load_plans([shape])
            }),
        },
        Entry {
            name: "arg-max",
            extents: &[4, 20],
            operands: &[
                (Ty::F32, &[0, 1], IN),
                (Ty::S32, &[0], OUT),
                (Ty::F32, &[0], OUT),
            ],
            in_place: false,
            call: |of, ask| {
                let (x, at, most) = (of[0].f32()?, of[1].s32_mut()?, of[2].f32_mut()?);
                let call = Reduce::index(ReduceFunction::ArgMax, &x, 1, &at);
                asked!(call.values(&most), ask)
            },
            load: Some(|of, shape| {
                let (x, at) = (of[0].f32()?, of[1].s32_mut()?);
                Reduce::index(ReduceFunction::ArgMax, &x, 1, &at).load_plans([shape])
            }),
        },
        Entry {
            name: "cumulative sum",
            extents: &[4, 20],
            operands: &[(Ty::F32, &[0, 1], IN), (Ty::F32, &[0, 1], OUT)],
            in_place: false,
            call: |of, ask| {
                let (x, y) = (of[0].f32()?, of[1].f32_mut()?);
                asked!(Scan::new(&x, 1, &y), ask)
            },
            load: Some(|of, shape| {
                let (x, y) = (of[0].f32()?, of[1].f32_mut()?);
                Scan::new(&x, 1, &y).load_plans([shape])
            }),
        },
        Entry {
            name: "top-k",
            extents: &[4, 20, 3],
            operands: &[
                (Ty::F32, &[0, 1], IN),
                (Ty::F32, &[0, 2], OUT),
                (Ty::S32, &[0, 2], OUT),
            ],
            in_place: false,
            call: |of, ask| {
                let (x, values, at) = (of[0].f32()?, of[1].f32_mut()?, of[2].s32_mut()?);
                asked!(TopK::new(&x, 1, &values, &at), ask)
            },
            load: Some(|of, shape| {
                let (x, values, at) = (of[0].f32()?, of[1].f32_mut()?, of[2].s32_mut()?);
                TopK::new(&x, 1, &values, &at).load_plans([shape])
            }),
        },
        Entry {
            name: "copy",
            extents: &[4, 20],
            operands: &[(Ty::F32, &[0, 1], IN), (Ty::F32, &[0, 1], OUT)],
            in_place: false,
            call: |of, ask| {
                let (x, y) = (of[0].f32()?, of[1].f32_mut()?);
                let call = CopyCall::new(&x, &y, None)?;
                match ask {
                    Ask::Prepare => Ok(()),
                    Ask::Run => call.run(x.device()),
                }
            },
            load: Some(|of, shape| CopyCall::load_plans(&of[0].f32()?, &of[1].f32_mut()?, [shape])),
        },
        Entry {
            name: "product",
            extents: &[5, 6, 8],
            operands: &[
                (Ty::F32, &[0, 2], IN),
                (Ty::F32, &[1, 2], IN),
                (Ty::F32, &[0, 1], OUT),
            ],
            in_place: false,
            call: |of, ask| {
                let (a, b, c) = (of[0].f32()?, of[1].f32()?, of[2].f32_mut()?);
                asked!(Gemm::new(&a, &b, &c), ask)
            },
            load: None,
        },
        Entry {
            name: "convolution",
            extents: &[2, 5, 4, 3, 1],
            operands: &[
                (Ty::F32, &[0, 1, 1, 2], IN),
                (Ty::F32, &[3, 4, 4, 2], IN),
                (Ty::F32, &[0, 1, 1, 3], OUT),
            ],
            in_place: false,
            call: |of, ask| {
                let (x, filters, y) = (of[0].f32()?, of[1].f32()?, of[2].f32_mut()?);
                asked!(Convolution::new(&x, &filters, &y), ask)
            },
            load: None,
        },
        Entry {
            name: "quantisation by a scale",
            extents: &[4, 20],
            operands: &[(Ty::F32, &[0, 1], IN), (Ty::S8, &[0, 1], OUT)],
            in_place: false,
            call: |of, ask| {
                let (x, q) = (of[0].f32()?, of[1].s8_mut()?);
                asked!(Quantise::new(Ty::S8, &x, &q).tensor(0.5), ask)
            },
            load: Some(|of, shape| {
                let (x, q) = (of[0].f32()?, of[1].s8_mut()?);
                Quantise::new(Ty::S8, &x, &q)
                    .tensor(0.5)
                    .load_plans([shape])
            }),
        },
    ];
    const OF_ROWS: &[Operand] = &[
        (Ty::F32, &[0, 1], IN),
        (Ty::S8, &[0, 1], OUT),
        (Ty::F32, &[0], OUT),
    ];
    const OF_BLOCKS: &[Operand] = &[
        (Ty::F32, &[0, 1], IN),
        (Ty::S8, &[0, 1], OUT),
        (Ty::F32, &[0, 2], OUT),
    ];
    const OF_TENSOR: &[Operand] = &[
        (Ty::F32, &[0, 1], IN),
        (Ty::S8, &[0, 1], OUT),
        (Ty::F32, &[2], OUT),
    ];
    macro_rules! quantisation {
        ($name:literal, $extents:expr, $operands:expr, |$call:ident, $scales:ident| $scaled:expr) => {
            all.push(Entry {
                name: $name,
                extents: $extents,
                operands: $operands,
                in_place: false,
                call: |of, ask| {
                    let (x, q, $scales) = (of[0].f32()?, of[1].s8_mut()?, of[2].f32_mut()?);
                    let $call = Quantise::new(Ty::S8, &x, &q);
                    asked!($scaled, ask)
                },
                load: Some(|of, shape| {
                    let (x, q, $scales) = (of[0].f32()?, of[1].s8_mut()?, of[2].f32_mut()?);
                    let $call = Quantise::new(Ty::S8, &x, &q);
                    $scaled.load_plans([shape])
                }),
            });
        };
    }
    quantisation!("quantisation of rows", &[4, 20], OF_ROWS, |call, scales| {
        call.rows(&scales)
    });
    quantisation!(
        "quantisation of blocks",
        &[4, 20, 3],
        OF_BLOCKS,
        |call, scales| { call.blocks(8, &scales) }
    );
    quantisation!(
        "quantisation by a computed scale",
        &[4, 20, 1],
        OF_TENSOR,
        |call, scales| { call.tensor_scale(&scales) }
    );
    all
}

impl Entry {
    /// The extents of an operand.
    fn of(&self, operand: &Operand, extents: &[i64]) -> Vec<i64> {
        operand.1.iter().map(|mode| extents[*mode]).collect()
    }

    /// The tensors of the call with such extents, with strides by `strides`; all memory is as large as any of the variants needs.
    fn tensors(
        &self,
        device: &Device,
        extents: &[i64],
        strides: &dyn Fn(&[i64]) -> Vec<i64>,
    ) -> Vec<Tensor> {
        let tensor = |(place, operand): (usize, &Operand)| {
            let extents = self.of(operand, extents);
            let strides = strides(&extents);
            let mut numbers = vec![0; 1 << 12];
            let row = places(&extents, &row_major(&extents));
            for (number, at) in row.into_iter().zip(places(&extents, &strides)) {
                numbers[at] = ((number * 7 + place * 3) % 13) as i32 - 4;
            }
            let index = numbers.iter().map(|n| n.rem_euclid(11));
            let memory = match (operand.0, operand.2) {
                (Ty::F32, IN) => {
                    let numbers: Vec<f32> = numbers.iter().map(|n| *n as f32).collect();
                    Memory::F32(device.upload(&numbers).expect("memory"))
                }
                (Ty::S32, IN) => {
                    Memory::S32(device.upload(&index.collect::<Vec<i32>>()).expect("memory"))
                }
                (Ty::F32, OUT) => Memory::F32(device.upload(&[-77.0; 1 << 12]).expect("memory")),
                (Ty::S32, OUT) => Memory::S32(device.upload(&[-77; 1 << 12]).expect("memory")),
                (Ty::S8, OUT) => Memory::S8(device.upload(&[-77; 1 << 12]).expect("memory")),
                (ty, _) => panic!("no call has {ty}"),
            };
            Tensor {
                memory,
                extents,
                strides,
            }
        };
        self.operands.iter().enumerate().map(tensor).collect()
    }

    /// Runs the call, and returns the numbers of its outputs.
    fn results(&self, of: &[Tensor]) -> Result<Vec<Vec<f64>>, Error> {
        (self.call)(of, Ask::Run)?;
        let outputs = of
            .iter()
            .zip(self.operands)
            .filter(|(_, operand)| operand.2);
        Ok(outputs.map(|(tensor, _)| tensor.numbers()).collect())
    }

    fn outputs(&self) -> impl Iterator<Item = usize> {
        (0..self.operands.len()).filter(|at| self.operands[*at].2)
    }
}

fn assert_near(found: &[Vec<f64>], want: &[Vec<f64>], what: &str) {
    for (found, want) in found.iter().flatten().zip(want.iter().flatten()) {
        let near = (found - want).abs() <= 1e-5 * want.abs().max(1.0);
        assert!(near, "{what}: {found}, not {want}");
    }
}

/// Tensors of any strides, and at addresses of one element, have the results of row-major ones: with the modes in the other order, with
/// gaps, and inputs that repeat along a mode.
#[test]
fn law_every_call_is_right_for_any_strides_and_addresses() {
    let mut cases = 0;
    for arch in [Arch::Sm80, Arch::Sm90a] {
        let device = Device::simulator(arch);
        for entry in entries() {
            let of = |strides: &dyn Fn(&[i64]) -> Vec<i64>| {
                entry.tensors(&device, entry.extents, strides)
            };
            let rows = |extents: &[i64]| row_major(extents);
            let columns = |extents: &[i64]| {
                let reversed: Vec<i64> = extents.iter().rev().copied().collect();
                row_major(&reversed).into_iter().rev().collect()
            };
            let gaps = |extents: &[i64]| {
                let wider: Vec<i64> = extents.iter().map(|n| n + 1).collect();
                row_major(&wider).into_iter().map(|n| 2 * n).collect()
            };
            let run = |of: &[Tensor], what: &str| {
                let found = entry.results(of);
                found.unwrap_or_else(|error| panic!("{} {what}: {error}", entry.name))
            };
            let plain = of(&rows);
            let want = run(&plain, "of rows");
            assert!(want.iter().flatten().all(|n| *n != -77.0), "{}", entry.name);
            let shifted: Vec<Tensor> = of(&rows).iter().map(Tensor::shifted).collect();
            // The numbers lie one element further, too.
            for (to, from) in shifted.iter().zip(&plain) {
                if let (Memory::F32(to), Memory::F32(from)) = (&to.memory, &from.memory) {
                    to.write(&from.download().expect("numbers")[..to.len()])
                        .expect("memory");
                } else if let (Memory::S32(to), Memory::S32(from)) = (&to.memory, &from.memory) {
                    to.write(&from.download().expect("numbers")[..to.len()])
                        .expect("memory");
                }
            }
            for (what, tensors) in [
                ("of columns", of(&columns)),
                ("with gaps", of(&gaps)),
                ("one element further", shifted),
            ] {
                let what = format!("{} {what}", entry.name);
                assert_near(&run(&tensors, &what), &want, &what);
                cases += 1;
            }
            for (place, operand) in entry.operands.iter().enumerate() {
                for mode in (0..operand.1.len()).filter(|_| !operand.2) {
                    let what = format!("{}: operand {place} repeats along {mode}", entry.name);
                    let mut tensors = of(&rows);
                    tensors[place].strides[mode] = 0;
                    // The same numbers, row-major.
                    let mut whole = of(&rows);
                    let (from, to) = (&tensors[place], &whole[place]);
                    let numbers = from.numbers();
                    match &to.memory {
                        Memory::F32(memory) => {
                            let numbers: Vec<f32> = numbers.iter().map(|n| *n as f32).collect();
                            let rest = memory.slice(..numbers.len()).expect("memory");
                            rest.write(&numbers).expect("memory");
                        }
                        Memory::S32(memory) => {
                            let numbers: Vec<i32> = numbers.iter().map(|n| *n as i32).collect();
                            let rest = memory.slice(..numbers.len()).expect("memory");
                            rest.write(&numbers).expect("memory");
                        }
                        Memory::S8(_) => panic!("no input is of s8"),
                    }
                    let want = run(&whole, &what);
                    whole.clear();
                    // The rows of a table have one stride, which may be 0.
                    assert_near(&run(&tensors, &what), &want, &what);
                    cases += 1;
                }
            }
        }
    }
    println!("law every call, strides: {cases} cases");
}

/// An output with one element at several coordinates, and one that overlaps another tensor, is refused; nothing is written.
#[test]
fn law_every_call_refuses_outputs_that_overlap() {
    let device = Device::simulator(Arch::Sm80);
    let (mut cases, mut said) = (0, BTreeSet::new());
    for entry in entries() {
        let rows = |extents: &[i64]| row_major(extents);
        for output in entry.outputs() {
            for mode in 0..entry.operands[output].1.len() {
                let mut tensors = entry.tensors(&device, entry.extents, &rows);
                if tensors[output].extents[mode] == 1 {
                    continue;
                }
                tensors[output].strides[mode] = 0;
                let refused = entry.results(&tensors);
                let refused = refused.expect_err(entry.name).to_string();
                let (_, why) = refused.split_once(" has ").unwrap_or(("", &refused));
                said.insert(why.to_string());
                cases += 1;
            }
            for other in (0..entry.operands.len()).filter(|other| *other != output) {
                if entry.operands[other].0 != entry.operands[output].0 {
                    continue;
                }
                for further in [false, true] {
                    let mut tensors = entry.tensors(&device, entry.extents, &rows);
                    let memory = tensors[other].clone();
                    let memory = if further { memory.shifted() } else { memory };
                    tensors[output].memory = memory.memory;
                    let is_same = !further && !entry.operands[other].2 && entry.in_place;
                    let before = tensors[other].numbers();
                    match entry.results(&tensors) {
                        Ok(_) => assert!(is_same, "{}: {output} over {other}", entry.name),
                        Err(error) => {
                            assert!(!is_same, "{}: {error}", entry.name);
                            let error = error.to_string();
                            assert!(error.contains("overlap"), "{}: {error}", entry.name);
                            assert_eq!(tensors[other].numbers(), before, "{}", entry.name);
                        }
                    }
                    cases += 1;
                }
            }
        }
    }
    let said: Vec<String> = said.into_iter().collect();
    assert_eq!(
        said,
        ["one element at several coordinates: which value stays would be a race"]
    );
    println!("law every call, overlaps: {cases} cases");
}

/// A call whose tensors have no element along a mode does nothing, has the neutral result, or says that it has none.
#[test]
fn law_every_call_takes_extents_of_0_or_says_why_not() {
    let device = Device::simulator(Arch::Sm80);
    let (mut cases, mut refused) = (0, Vec::new());
    for entry in entries() {
        for mode in 0..entry.extents.len() {
            let mut extents = entry.extents.to_vec();
            extents[mode] = 0;
            let tensors = entry.tensors(&device, &extents, &|extents| row_major(extents));
            match entry.results(&tensors) {
                Ok(results) => {
                    let all = results.iter().flatten();
                    let is_scale = entry.name == "quantisation by a computed scale";
                    let unstored = if is_scale { -77.0 } else { 0.0 };
                    // The sum of no elements; a scale that is not stored, as its documentation says.
                    assert!(
                        all.clone().all(|n| *n == unstored),
                        "{}: {results:?}",
                        entry.name
                    );
                }
                Err(error) => refused.push(format!("{}, {mode}: {error}", entry.name)),
            }
            let prepared = (entry.call)(&tensors, Ask::Prepare);
            let is_refused = refused
                .last()
                .is_some_and(|last| last.starts_with(&format!("{}, {mode}: ", entry.name)));
            assert_eq!(prepared.is_err(), is_refused, "{}, {mode}", entry.name);
            cases += 1;
        }
    }
    println!("law every call, extents of 0: {cases} cases");
    assert_eq!(
        refused,
        [
            "gather, 2: gather: the table has the shape (0,8), index 4 and out (4,8): one of them has no elements",
            "arg-max, 1: the arg-max of no elements: x has the shape (4,0), and an extent that is reduced is 0",
            "top-k, 1: the 3 largest of 0 elements: there must be 0",
            "convolution, 1: convolution: the number of pixels along H is 0: it must be 1 to 16777215",
            "convolution, 4: convolution: the number of taps along H is 0: it must be 1 to 256",
            "quantisation of rows, 1: x has the shape (4,0): a row without columns has no largest size, and so no scale",
            "quantisation of blocks, 1: scales has the shape (4,3): it must be (4,0), for x (4,0)",
            "quantisation of blocks, 2: scales has the shape (4,0): it must be (4,3), for x (4,20)",
            "quantisation by a computed scale, 2: the scale has the shape 0: it must be 1, for x (4,20)",
        ]
    );
}

/// A tensor without elements overlaps nothing: its address may be any, also inside of another tensor.
#[test]
fn law_every_call_takes_no_elements_at_any_address() {
    fn none<T: Element>(buffer: &Buffer<T>, at: usize) -> Buffer<T> {
        buffer.slice(at..at).expect("a part without elements")
    }
    let device = Device::simulator(Arch::Sm80);
    let mut cases = 0;
    for entry in entries() {
        for mode in 0..entry.extents.len() {
            let mut extents = entry.extents.to_vec();
            extents[mode] = 0;
            let plain = || entry.tensors(&device, &extents, &|extents| row_major(extents));
            let want = entry.results(&plain()).map_err(|error| error.to_string());
            for place in 0..entry.operands.len() {
                for other in (0..entry.operands.len()).filter(|other| *other != place) {
                    for at in [0, 1, 3] {
                        let mut tensors = plain();
                        if !tensors[place].extents.contains(&0) {
                            continue;
                        }
                        let [own, of_other] = [place, other].map(|at| entry.operands[at].0);
                        let memory = match &tensors[other].memory {
                            _ if own != of_other => continue,
                            Memory::F32(buffer) => Memory::F32(none(buffer, at)),
                            Memory::S32(buffer) => Memory::S32(none(buffer, at)),
                            Memory::S8(buffer) => Memory::S8(none(buffer, at)),
                        };
                        tensors[place].memory = memory;
                        let found = entry.results(&tensors).map_err(|error| error.to_string());
                        let what = format!("{}, {mode}: {place} {at} behind {other}", entry.name);
                        assert_eq!(found, want, "{what}");
                        cases += 1;
                    }
                }
            }
        }
    }
    println!("law every call, no elements at any address: {cases} cases");
    assert!(cases > 100, "{cases}");
}

/// A view without modes has one element. A call of one such view, or of such views alone, is right or says what is wrong, and so does a load
/// of a shape without extents, also by a call whose tensors have no element.
#[test]
fn law_every_call_takes_views_without_modes_or_says_why_not() {
    let device = Device::simulator(Arch::Sm80);
    let (mut taken, mut refused) = (0, 0);
    let mut said = BTreeSet::new();
    for entry in entries() {
        let mut law = |what: &str, answer: Result<(), Error>| match answer {
            Ok(()) => taken += 1,
            Err(error) => {
                let error = error.to_string();
                assert!(!error.is_empty(), "{}, {what}", entry.name);
                if error.contains("has no mode of") {
                    said.insert(error);
                }
                refused += 1;
            }
        };
        let of = |extents: &[i64]| entry.tensors(&device, extents, &|extents| row_major(extents));
        for place in 0..=entry.operands.len() {
            let mut tensors = of(entry.extents);
            for (at, tensor) in tensors.iter_mut().enumerate() {
                // All of them at last.
                if at == place || place == entry.operands.len() {
                    (tensor.extents, tensor.strides) = (Vec::new(), Vec::new());
                }
            }
            for ask in [Ask::Prepare, Ask::Run] {
                law("views", (entry.call)(&tensors, ask));
            }
            if let Some(load) = entry.load {
                let own = entry.of(&entry.operands[0], entry.extents);
                law("a load", load(&tensors, &[]).map(drop));
                law("a load of views", load(&tensors, &own).map(drop));
            }
        }
        let empty = of(&vec![0; entry.extents.len()]);
        if let Some(load) = entry.load {
            law("a load by no elements", load(&empty, &[]).map(drop));
        }
    }
    println!("law every call, no modes: {taken} taken, {refused} refused");
    assert!(
        taken > 0 && refused > 50,
        "{taken} taken, {refused} refused"
    );
    let said: Vec<String> = said.into_iter().collect();
    assert_eq!(
        said,
        [
            "gather: the table has the shape (), which has no mode of rows: it must have at least one mode",
            "x has the shape (), which has no mode of columns: it must have at least one mode",
        ]
    );
}

/// Beside an extent of 0, the others may have a product beyond 64 bits: nothing overflows.
#[test]
fn law_calls_of_no_elements_take_any_other_extents() {
    let device = Device::simulator(Arch::Sm80);
    let shape = "((1099511627776,1099511627776),0)";
    let memory = device.zeros::<f32>(8).expect("memory");
    let index = device.zeros::<i32>(8).expect("memory");
    let mut written = device.zeros::<f32>(8).expect("memory");
    let mut bytes = device.zeros::<i8>(8).expect("memory");
    let mut more = device.zeros::<f32>(8).expect("memory");
    let x = View::row_major(&memory, shape).expect("a view");
    let table = View::row_major(&memory, "(0,(1099511627776,1099511627776))").expect("a view");
    let index = View::row_major(&index, 4).expect("a view");
    let y = ViewMut::row_major(&mut written, shape).expect("a view");
    let q = ViewMut::row_major(&mut bytes, shape).expect("a view");
    let scales = ViewMut::row_major(&mut more, 8).expect("a view");
    let sentence = |answer: Result<(), Error>| answer.err().map(|error| error.to_string());
    let said = [
        Rowwise::new(RowFunction::Softmax, &x, &y).run(),
        Rowwise::new(RowFunction::RmsNorm, &x, &y).weight(&x).run(),
        Reduce::new(ReduceFunction::Sum, &x, &[1], &y).run(),
        Scan::new(&x, 1, &y).run(),
        Gather::new(&table, &index, &y).run(),
        Rotary::new(Pairing::Halves, &x, &y).run(),
        Quantise::new(Ty::S8, &x, &q).rows(&scales).run(),
    ]
    .map(sentence);
    let [softmax, norm, sum, scan, gather, rotary, rows] = said;
    assert_eq!([softmax, scan], [None, None]);
    let refused = [norm, sum, gather, rotary, rows].map(|said| said.expect("it is refused"));
    for said in refused {
        assert!(said.contains(shape), "{said}");
    }
}

/// The same of attention: Q and O, K and V, the log-sum-exp, and the table of pages.
#[test]
fn law_attention_to_no_elements_takes_any_other_extents() {
    let device = Device::simulator(Arch::Sm80);
    let memory = device.zeros::<f16>(8).expect("memory");
    let mut written = device.zeros::<f16>(8).expect("memory");
    let mut sums = device.zeros::<f32>(8).expect("memory");
    let numbers = device.zeros::<i32>(8).expect("memory");
    let view = |shape: &str| View::row_major(&memory, shape).expect("a view");
    let wide = "((1099511627776,1099511627776),0,3,64)";
    let (queries, none) = (view(wide), view("(1,0,3,64)"));
    let keys = view("(1,0,(1099511627776,1099511627776),64)");
    let pool = view("(0,0,16,64)");
    let o = ViewMut::row_major(&mut written, wide).expect("a view");
    let said = Attention::new(&queries, &queries, &queries, &o).run();
    let o = ViewMut::row_major(&mut written, "(1,0,3,64)").expect("a view");
    let shape = "((1099511627776,1099511627776),0,3)";
    let sums = ViewMut::row_major(&mut sums, shape).expect("a view");
    let table = View::row_major(&numbers, "((1099511627776,1099511627776),0)").expect("a view");
    let lengths = View::row_major(&numbers, 4).expect("a view");
    let plain = Attention::new(&none, &none, &none, &o);
    let said = [
        said,
        Attention::new(&none, &keys, &keys, &o).run(),
        plain.log_sum_exp(&sums).run(),
        Attention::new(&none, &pool, &pool, &o)
            .pages(&table, &lengths, 0)
            .run(),
    ];
    assert_eq!(
        said.map(|said| said.expect_err("it is refused").to_string()),
        [
            "batch is 9223372036854775807: it must be 0 to 2147352576",
            "sequence length is 9223372036854775807: it must be 0 to 2147352576",
            "the batch is 1 in Q and 9223372036854775807 in the log-sum-exp",
            "the batch is 9223372036854775807 in the table of pages and 4 in the vector of numbers of keys",
        ]
    );
}

/// Copies and maps of no elements take the shapes that correspond, as those of elements do, and say where others differ.
#[test]
fn law_copies_and_maps_of_no_elements_take_shapes_that_correspond() {
    let device = Device::simulator(Arch::Sm80);
    let memory = device.zeros::<f32>(8).expect("memory");
    let mut written = device.zeros::<f32>(8).expect("memory");
    let same: MapExpression = "(x: tensor f32) -> y { neg(x) }".parse().expect("a map");
    let mut run = |from: &str, to: &str| {
        let from = View::row_major(&memory, from).expect("a view");
        let to = ViewMut::row_major(&mut written, to).expect("a view");
        let none: [[i64; 3]; 0] = [];
        let copied = CopyCall::new(&from, &to, None).and_then(|call| call.run(&device));
        let loaded = CopyCall::load_plans(&from, &to, none).map(|_| ());
        let mapped = Map::new(&same).input("x", &from).output("y", &to).run();
        [copied, loaded, mapped].map(|said| said.err().map(|error| error.to_string()))
    };
    let filled = [
        ("6", "6"),
        ("6", "(3,2)"),
        ("((3,1),2)", "6"),
        ("(3,2)", "((1,3),2)"),
    ];
    let empty = [
        ("0", "0"),
        ("0", "(3,0)"),
        ("((0,4),2)", "0"),
        ("(3,0)", "((3,1),0)"),
    ];
    let mut cases = 0;
    for place in 0..3 {
        for (a, b) in filled.into_iter().flat_map(|a| filled.map(|b| (a, b))) {
            for none in empty {
                let mut modes = [a, b, none];
                modes.swap(2, place);
                let [from, to] = [0, 1].map(|side| {
                    let mode = |(from, to): (&'static str, &'static str)| [from, to][side];
                    format!("({})", modes.map(mode).join(","))
                });
                assert_eq!(run(&from, &to), [None, None, None], "{from} to {to}");
                cases += 1;
            }
        }
    }
    let [copied, loaded, mapped] = run("(0,(3,2))", "(0,5)").map(|said| said.expect("refused"));
    assert_eq!(
        [&copied, &mapped],
        [
            "a copy from the shape (0,(3,2)) into (0,5): mode 1 has 6 elements in one and 5 in the other; give both one shape, or permute one of them",
            "x has the shape (0,(3,2)), and y (0,5): mode 1 has 6 elements in one and 5 in the other",
        ]
    );
    assert_eq!(loaded, copied);
    let [copied, ..] = run("(0,6)", "(1,6)").map(|said| said.expect("refused"));
    assert_eq!(
        copied,
        "a copy from the shape (0,6) into (1,6): one of them has no elements; give both one shape, or permute one of them"
    );
    println!("law every call, shapes of no elements: {cases} cases");
}

/// One operand has one element more along a mode: the call says what does not fit, and writes nothing.
#[test]
fn law_every_call_refuses_shapes_that_do_not_fit() {
    let device = Device::simulator(Arch::Sm80);
    let mut cases = 0;
    for entry in entries() {
        for (place, operand) in entry.operands.iter().enumerate() {
            for mode in 0..operand.1.len() {
                let mut tensors =
                    entry.tensors(&device, entry.extents, &|extents| row_major(extents));
                // A table may have any number of rows, and a selection takes any number of elements.
                let own = operand.1[mode];
                let sharing = entry.operands.iter().filter(|other| other.1.contains(&own));
                if sharing.count() < 2 && !(entry.name.starts_with("quantisation") && own == 2) {
                    continue;
                }
                tensors[place].extents[mode] += 1;
                tensors[place].strides = row_major(&tensors[place].extents);
                let said = entry.results(&tensors);
                // A selection of one element more in one output only.
                let said = said.expect_err(&format!("{}: {place}, {mode}", entry.name));
                assert!(!said.to_string().is_empty());
                cases += 1;
            }
        }
    }
    println!("law every call, shapes: {cases} cases");
}

/// Shapes of 2^31 elements and more, whose tensors no memory of this machine holds, are taken or refused, and nothing overflows.
#[test]
fn law_every_call_takes_or_refuses_sizes_beyond_32_bits() {
    let device = Device::simulator(Arch::Sm80);
    let (mut taken, mut refused) = (0, 0);
    let sizes = [1 << 31, (1 << 40) - 1, i64::MAX, i64::MIN];
    for entry in entries() {
        let tensors = entry.tensors(&device, entry.extents, &|extents| row_major(extents));
        let own = entry.of(&entry.operands[0], entry.extents);
        let mut shapes = Vec::new();
        for mode in 0..own.len() {
            for size in sizes {
                let mut shape = own.clone();
                shape[mode] = size;
                shapes.push(shape.clone());
                shape.fill(size);
                shapes.push(shape);
            }
        }
        for shape in &shapes {
            let Some(load) = entry.load else {
                continue;
            };
            match load(&tensors, shape) {
                Ok(_) => taken += 1,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
            }
        }
        // Views of `size` elements, all of which are one.
        for (place, operand) in entry.operands.iter().enumerate().filter(|(_, of)| !of.2) {
            for mode in 0..operand.1.len() {
                for size in sizes {
                    let mut tensors =
                        entry.tensors(&device, entry.extents, &|extents| row_major(extents));
                    tensors[place].extents[mode] = size;
                    tensors[place].strides[mode] = 0;
                    match (entry.call)(&tensors, Ask::Prepare) {
                        Ok(()) => taken += 1,
                        Err(_) => refused += 1,
                    }
                }
            }
        }
    }
    println!("law every call, sizes: {taken} taken, {refused} refused");
    assert!(
        taken > 20 && refused > 50,
        "{taken} taken, {refused} refused"
    );
}

/// No view goes down in memory or begins between two elements: no call meets one.
#[test]
fn views_with_negative_strides_and_between_elements_are_refused() {
    let device = Device::simulator(Arch::Sm80);
    let memory = device.zeros::<f32>(80).expect("memory");
    for (layout, said) in [
        (
            "(4,20):(-20,1)",
            "(4,20):(-20,1) reaches element -60, and the buffer has elements 0 to 79",
        ),
        (
            "(4,20):(20,-1)",
            "(4,20):(20,-1) reaches element -19, and the buffer has elements 0 to 79",
        ),
        (
            "4:-1",
            "4:-1 reaches element -3, and the buffer has elements 0 to 79",
        ),
    ] {
        let refused = View::new(&memory, layout).expect_err(layout);
        assert_eq!(refused.to_string(), said, "{layout}");
    }
}

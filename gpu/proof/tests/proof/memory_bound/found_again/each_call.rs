//! Every call that is found by its views, with one thing changed at a time.

use std::collections::HashMap;

use colex_atom::{Arch, Ty};
use colex_gpu::elementwise::{Gather, Map, MapExpression, Pairing, Rotary};
use colex_gpu::gemm::Convolution;
use colex_gpu::quantise::{Quantise, TensorScalePlan};
use colex_gpu::reduce::scan::Scan;
use colex_gpu::reduce::top_k::TopK;
use colex_gpu::{Buffer, Device, Element, Error, View, ViewMut};
use half::bf16;

/// One call: what `run` does, and what a call does that is prepared anew. Each of both has its own outputs.
struct Case {
    name: String,
    run: Box<dyn Fn() -> Result<(), Error>>,
    prepared: Box<dyn Fn() -> Result<(), Error>>,
}

/// Makes a case of an expression that makes the call from one of two outputs.
macro_rules! case {
    ($name:expr, $device:ident, |$at:ident| $call:expr) => {{
        let device = $device.clone();
        Case {
            name: $name.to_string(),
            run: Box::new(move || {
                let $at = 0;
                $call.run()
            }),
            prepared: Box::new(move || {
                let $at = 1;
                $call.prepare()?.run(&device)
            }),
        }
    }};
}

/// Views that many calls share live to the end of the test.
fn leaked<T>(of: T) -> &'static T {
    Box::leak(Box::new(of))
}

type Read<T> = &'static View<'static, T>;

/// The same view of two buffers.
type Written<T> = &'static [ViewMut<'static, T>; 2];

/// The layout of a view, and its first element. Two views with one layout share its form, as the thread keeps it.
type Place<'a> = (&'a [i64], &'a [i64], usize);

fn read<T: Element>(
    of: &Buffer<T>,
    (extents, strides, first): Place<'_>,
) -> Result<Read<T>, Error> {
    let part = leaked(of.slice(first..)?);
    Ok(leaked(View::strided(part, extents, strides)?))
}

/// Two buffers of one length: the first one for what is found, the second one for what is wanted.
struct Outputs<T>([Buffer<T>; 2]);

impl<T: Element> Outputs<T> {
    fn new(device: &Device, length: usize) -> Result<Outputs<T>, Error> {
        Ok(Outputs([
            device.poisoned(length)?,
            device.poisoned(length)?,
        ]))
    }

    fn at(&self, (extents, strides, first): Place<'_>) -> Result<Written<T>, Error> {
        let [a, b] = &self.0;
        let view = |of: &Buffer<T>| {
            let part = Box::leak(Box::new(of.slice(first..)?));
            ViewMut::strided(part, extents, strides)
        };
        Ok(leaked([view(a)?, view(b)?]))
    }
}

/// The outputs of calls of one kind, as bytes.
trait Compared {
    fn clear(&self) -> Result<(), Error>;

    fn bytes(&self, at: usize) -> Result<Vec<u8>, Error>;
}

impl<T: Element> Compared for Outputs<T> {
    fn clear(&self) -> Result<(), Error> {
        for of in &self.0 {
            of.fill_bytes(0xee)?;
        }
        Ok(())
    }

    fn bytes(&self, at: usize) -> Result<Vec<u8>, Error> {
        Ok(T::to_bytes(&self.0[at].download()?))
    }
}

/// Runs the cases twice, in turns, and returns their number. No two of them have the same results, so that a case is not taken for another
/// one.
fn check(outputs: &[&dyn Compared], cases: Vec<Case>) -> Result<usize, Error> {
    let mut known: HashMap<Vec<u8>, &str> = HashMap::new();
    for round in 0..2 {
        for Case {
            name,
            run,
            prepared,
        } in &cases
        {
            for output in outputs {
                output.clear()?;
            }
            run()?;
            prepared()?;
            let bytes = |at: usize| -> Result<Vec<u8>, Error> {
                let all = outputs.iter().map(|output| output.bytes(at));
                Ok(all.collect::<Result<Vec<_>, Error>>()?.concat())
            };
            let wanted = bytes(1)?;
            assert!(bytes(0)? == wanted, "{name}, round {round}");
            if round == 0
                && let Some(other) = known.insert(wanted, name)
            {
                panic!("{name} has the results of {other}");
            }
        }
    }
    Ok(2 * cases.len())
}

/// Numbers of which neighbours differ.
fn numbers(count: usize) -> Vec<f32> {
    let number = |i: usize| (i * 37 % 101) as f32 / 8.0 - 6.0;
    (0..count).map(number).collect()
}

const ROWS: Place<'static> = (&[4, 8], &[8, 1], 0);
const COLUMNS: Place<'static> = (&[4, 8], &[1, 4], 0);
const LATER: Place<'static> = (&[4, 8], &[8, 1], 4);

fn sums(device: &Device) -> Result<usize, Error> {
    let numbers = numbers(64);
    let x = device.upload(&numbers)?;
    let integers: Vec<i32> = numbers.iter().map(|x| (8.0 * x) as i32).collect();
    let integers = read(&device.upload(&integers)?, ROWS)?;
    let [rows, columns, later] = [read(&x, ROWS)?, read(&x, COLUMNS)?, read(&x, LATER)?];
    let (y, of_integers) = (Outputs::new(device, 64)?, Outputs::new(device, 64)?);
    let [to_rows, to_columns, to_later] = [y.at(ROWS)?, y.at(COLUMNS)?, y.at(LATER)?];
    let to_integers = of_integers.at(ROWS)?;
    let cases = vec![
        case!("sums", device, |at| Scan::new(rows, 1, &to_rows[at])),
        case!("mode", device, |at| Scan::new(rows, 0, &to_rows[at])),
        case!("exclusive", device, |at| {
            Scan::new(rows, 1, &to_rows[at]).exclusive()
        }),
        case!("x", device, |at| Scan::new(columns, 1, &to_rows[at])),
        case!("x, later", device, |at| Scan::new(later, 1, &to_rows[at])),
        case!("y", device, |at| Scan::new(rows, 1, &to_columns[at])),
        case!("y, later", device, |at| Scan::new(rows, 1, &to_later[at])),
        case!("type", device, |at| {
            Scan::new(integers, 1, &to_integers[at])
        }),
    ];
    check(&[&y, &of_integers], cases)
}

fn selections(device: &Device) -> Result<usize, Error> {
    let square = |first| -> Place<'static> { (&[4, 4], &[4, 1], first) };
    let turned: Place<'_> = (&[4, 4], &[1, 4], 0);
    let few: Place<'_> = (&[4, 2], &[4, 1], 0);
    let x = device.upload(&numbers(64))?;
    let [rows, columns, later] = [
        read(&x, square(0))?,
        read(&x, turned)?,
        read(&x, square(2))?,
    ];
    let (values, small) = (
        Outputs::<f32>::new(device, 64)?,
        Outputs::<i32>::new(device, 64)?,
    );
    let large = Outputs::<i64>::new(device, 64)?;
    let [v, v_turned, v_later] = [
        values.at(square(0))?,
        values.at(turned)?,
        values.at(square(3))?,
    ];
    let [i, i_turned, i_later] = [
        small.at(square(0))?,
        small.at(turned)?,
        small.at(square(3))?,
    ];
    let (v_few, i_few) = (values.at(few)?, small.at(few)?);
    let long = large.at(square(0))?;
    let cases = vec![
        case!("selection", device, |at| TopK::new(rows, 1, &v[at], &i[at])),
        case!("mode", device, |at| TopK::new(rows, 0, &v[at], &i[at])),
        case!("smallest", device, |at| {
            TopK::new(rows, 1, &v[at], &i[at]).smallest()
        }),
        case!("k", device, |at| {
            TopK::new(rows, 1, &v_few[at], &i_few[at])
        }),
        case!("x", device, |at| TopK::new(columns, 1, &v[at], &i[at])),
        case!("x, later", device, |at| {
            TopK::new(later, 1, &v[at], &i[at])
        }),
        case!("values", device, |at| {
            TopK::new(rows, 1, &v_turned[at], &i[at])
        }),
        case!("values, later", device, |at| {
            TopK::new(rows, 1, &v_later[at], &i[at])
        }),
        case!("indices", device, |at| {
            TopK::new(rows, 1, &v[at], &i_turned[at])
        }),
        case!("indices, later", device, |at| {
            TopK::new(rows, 1, &v[at], &i_later[at])
        }),
        case!("type of the indices", device, |at| {
            TopK::new(rows, 1, &v[at], &long[at])
        }),
    ];
    check(&[&values, &small, &large], cases)
}

/// What a map takes: its expression, two tensors, the values of two scalars and two outputs, by their names.
#[derive(Clone, Copy)]
struct Given {
    expression: &'static MapExpression,
    tensors: [(&'static str, Read<f32>); 2],
    scalars: [(&'static str, f64); 2],
    outputs: [(&'static str, Written<f32>); 2],
}

impl Given {
    fn map(&self, at: usize) -> Map<'static> {
        let mut map = Map::new(self.expression);
        for (name, tensor) in self.tensors {
            map = map.input(name, tensor);
        }
        for (name, value) in self.scalars {
            map = map.scalar(name, value);
        }
        for (name, output) in self.outputs {
            map = map.output(name, &output[at]);
        }
        map
    }
}

fn maps(device: &Device) -> Result<usize, Error> {
    let inputs = "(a: tensor f32, b: tensor f32, s: scalar f32, t: scalar f32)";
    let expression = |last: &str| -> Result<&'static MapExpression, Error> {
        let text = format!("{inputs} -> y {{ fma(a, s, mul(b, t)) }} z {{ {last} }}");
        Ok(leaked(text.parse()?))
    };
    let (of_a, of_b) = (device.upload(&numbers(64))?, numbers(164));
    let of_b = device.upload(&of_b[100..])?;
    let [a, a_columns, a_later] = [
        read(&of_a, ROWS)?,
        read(&of_a, COLUMNS)?,
        read(&of_a, LATER)?,
    ];
    let [b, b_later] = [read(&of_b, ROWS)?, read(&of_b, LATER)?];
    let (of_y, of_z) = (Outputs::new(device, 64)?, Outputs::new(device, 64)?);
    let [y, y_columns, y_later] = [of_y.at(ROWS)?, of_y.at(COLUMNS)?, of_y.at(LATER)?];
    let [z, z_later] = [of_z.at(ROWS)?, of_z.at(LATER)?];
    let base = Given {
        expression: expression("sub(a, b)")?,
        tensors: [("a", a), ("b", b)],
        scalars: [("s", 2.0), ("t", 3.0)],
        outputs: [("y", y), ("z", z)],
    };
    let of = |name: &str, given: Given| case!(name, device, |at| given.map(at));
    let other = expression("add(a, b)")?;
    let cases = vec![
        of("map", base),
        of(
            "expression",
            Given {
                expression: other,
                ..base
            },
        ),
        of(
            "names of tensors",
            Given {
                tensors: [("b", a), ("a", b)],
                ..base
            },
        ),
        of(
            "a",
            Given {
                tensors: [("a", a_columns), ("b", b)],
                ..base
            },
        ),
        of(
            "a, later",
            Given {
                tensors: [("a", a_later), ("b", b)],
                ..base
            },
        ),
        of(
            "b, later",
            Given {
                tensors: [("a", a), ("b", b_later)],
                ..base
            },
        ),
        of(
            "b is a",
            Given {
                tensors: [("a", a), ("b", a)],
                ..base
            },
        ),
        of(
            "s",
            Given {
                scalars: [("s", 2.5), ("t", 3.0)],
                ..base
            },
        ),
        of(
            "t",
            Given {
                scalars: [("s", 2.0), ("t", -3.0)],
                ..base
            },
        ),
        of(
            "names of scalars",
            Given {
                scalars: [("t", 2.0), ("s", 3.0)],
                ..base
            },
        ),
        of(
            "names of outputs",
            Given {
                outputs: [("z", y), ("y", z)],
                ..base
            },
        ),
        of(
            "y",
            Given {
                outputs: [("y", y_columns), ("z", z)],
                ..base
            },
        ),
        of(
            "y, later",
            Given {
                outputs: [("y", y_later), ("z", z)],
                ..base
            },
        ),
        of(
            "z, later",
            Given {
                outputs: [("y", y), ("z", z_later)],
                ..base
            },
        ),
    ];
    check(&[&of_y, &of_z], cases)
}

fn gathers(device: &Device) -> Result<usize, Error> {
    let numbers = device.upload(&numbers(64))?;
    let at = |i: i32| (5 * i + 3) % 8;
    let short: Vec<i32> = (0..16).map(at).collect();
    let long: Vec<i64> = (1..17).map(|i| at(i).into()).collect();
    let (short, long) = (device.upload(&short)?, device.upload(&long)?);
    let [table, table_turned, table_later] = [
        read(&numbers, (&[8, 4], &[4, 1], 0))?,
        read(&numbers, (&[8, 4], &[1, 8], 0))?,
        read(&numbers, (&[8, 4], &[4, 1], 8))?,
    ];
    let [index, index_apart, index_later] = [
        read(&short, (&[4], &[1], 0))?,
        read(&short, (&[4], &[3], 0))?,
        read(&short, (&[4], &[1], 5))?,
    ];
    let of_64_bits = read(&long, (&[4], &[1], 0))?;
    let outputs = Outputs::<f32>::new(device, 64)?;
    let [out, out_turned, out_later] = [
        outputs.at((&[4, 4], &[4, 1], 0))?,
        outputs.at((&[4, 4], &[1, 4], 0))?,
        outputs.at((&[4, 4], &[4, 1], 4))?,
    ];
    let cases = vec![
        case!("gather", device, |at| Gather::new(table, index, &out[at])),
        case!("table", device, |at| {
            Gather::new(table_turned, index, &out[at])
        }),
        case!("table, later", device, |at| {
            Gather::new(table_later, index, &out[at])
        }),
        case!("index", device, |at| {
            Gather::new(table, index_apart, &out[at])
        }),
        case!("index, later", device, |at| {
            Gather::new(table, index_later, &out[at])
        }),
        case!("type of the index", device, |at| {
            Gather::new(table, of_64_bits, &out[at])
        }),
        case!("out", device, |at| {
            Gather::new(table, index, &out_turned[at])
        }),
        case!("out, later", device, |at| {
            Gather::new(table, index, &out_later[at])
        }),
    ];
    check(&[&outputs], cases)
}

fn rotaries(device: &Device) -> Result<usize, Error> {
    let shape = &[1, 2, 4, 8][..];
    let numbers = device.upload(&numbers(128))?;
    let place = |first| -> Place<'_> { (shape, &[64, 32, 8, 1], first) };
    let turned: Place<'_> = (shape, &[64, 8, 16, 1], 0);
    let [x, x_turned, x_later] = [
        read(&numbers, place(0))?,
        read(&numbers, turned)?,
        read(&numbers, place(4))?,
    ];
    let outputs = Outputs::<f32>::new(device, 128)?;
    let [y, y_turned, y_later] = [
        outputs.at(place(0))?,
        outputs.at(turned)?,
        outputs.at(place(4))?,
    ];
    let short: Vec<i32> = (0..16).map(|i| (3 * i + 1) % 7).collect();
    let long: Vec<i64> = (0..16).map(|i| (5 * i + 2) % 7).collect();
    let short = device.upload(&short)?;
    let [at_short, at_later] = [
        read(&short, (&[4], &[1], 0))?,
        read(&short, (&[4], &[1], 3))?,
    ];
    let at_long = read(&device.upload(&long)?, (&[4], &[1], 0))?;
    let table = |first| read(&numbers, (&[8, 4], &[4, 1], first));
    let [cos, sin, other] = [table(0)?, table(32)?, table(64)?];
    let [halves, near] = [Pairing::Halves, Pairing::Interleaved];
    let cases = vec![
        case!("rotary", device, |at| Rotary::new(halves, x, &y[at])),
        case!("pairing", device, |at| Rotary::new(near, x, &y[at])),
        case!("x", device, |at| Rotary::new(halves, x_turned, &y[at])),
        case!("x, later", device, |at| {
            Rotary::new(halves, x_later, &y[at])
        }),
        case!("y", device, |at| Rotary::new(halves, x, &y_turned[at])),
        case!("y, later", device, |at| {
            Rotary::new(halves, x, &y_later[at])
        }),
        case!("features", device, |at| {
            Rotary::new(halves, x, &y[at]).features(4)
        }),
        case!("other features", device, |at| {
            Rotary::new(halves, x, &y[at]).features(6)
        }),
        case!("offset", device, |at| {
            Rotary::new(halves, x, &y[at]).offset(3)
        }),
        case!("base", device, |at| {
            Rotary::new(halves, x, &y[at]).base(100.0)
        }),
        case!("positions", device, |at| {
            Rotary::new(halves, x, &y[at]).positions(at_short)
        }),
        case!("positions, later", device, |at| {
            Rotary::new(halves, x, &y[at]).positions(at_later)
        }),
        case!("type of the positions", device, |at| {
            Rotary::new(halves, x, &y[at]).positions(at_long)
        }),
        case!("tables", device, |at| {
            Rotary::new(halves, x, &y[at]).tables(cos, sin)
        }),
        case!("cosines", device, |at| {
            Rotary::new(halves, x, &y[at]).tables(other, sin)
        }),
        case!("sines", device, |at| {
            Rotary::new(halves, x, &y[at]).tables(cos, other)
        }),
        case!("tables from a position on", device, |at| {
            Rotary::new(halves, x, &y[at]).tables(cos, sin).offset(3)
        }),
        case!("tables at positions", device, |at| {
            let call = Rotary::new(halves, x, &y[at]).tables(cos, sin);
            call.positions(at_short)
        }),
    ];
    check(&[&outputs], cases)
}

fn quantisations(device: &Device) -> Result<usize, Error> {
    let x = device.upload(&numbers(64))?;
    let [rows, columns, later] = [read(&x, ROWS)?, read(&x, COLUMNS)?, read(&x, LATER)?];
    let (bytes, signed) = (
        Outputs::<u8>::new(device, 64)?,
        Outputs::<i8>::new(device, 64)?,
    );
    let [q, q_columns, q_later] = [bytes.at(ROWS)?, bytes.at(COLUMNS)?, bytes.at(LATER)?];
    let s8 = signed.at(ROWS)?;
    let scales = Outputs::<f32>::new(device, 64)?;
    let [s, s_apart, s_later] = [
        scales.at((&[4], &[1], 0))?,
        scales.at((&[4], &[3], 0))?,
        scales.at((&[4], &[1], 5))?,
    ];
    let of_blocks = scales.at((&[4, 2], &[2, 1], 0))?;
    let [one, one_later] = [scales.at((&[1], &[1], 0))?, scales.at((&[1], &[1], 2))?];
    let new = |x: Read<f32>, to: Ty, q: Written<u8>, at: usize| Quantise::new(to, x, &q[at]);
    let [e4m3, e5m2] = [Ty::E4m3, Ty::E5m2];
    let whole = TensorScalePlan {
        blocks: 1,
        ..TensorScalePlan::fastest(Ty::F32, e4m3)
    };
    let cases = vec![
        case!("rows", device, |at| new(rows, e4m3, q, at).rows(&s[at])),
        case!("rows, type", device, |at| {
            new(rows, e5m2, q, at).rows(&s[at])
        }),
        case!("rows to s8", device, |at| {
            Quantise::new(Ty::S8, rows, &s8[at]).rows(&s[at])
        }),
        case!("rows, x", device, |at| {
            new(columns, e4m3, q, at).rows(&s[at])
        }),
        case!("rows, x later", device, |at| {
            new(later, e4m3, q, at).rows(&s[at])
        }),
        case!("rows, q", device, |at| {
            new(rows, e4m3, q_columns, at).rows(&s[at])
        }),
        case!("rows, q later", device, |at| {
            new(rows, e4m3, q_later, at).rows(&s[at])
        }),
        case!("rows, scales", device, |at| {
            new(rows, e4m3, q, at).rows(&s_apart[at])
        }),
        case!("rows, scales later", device, |at| {
            new(rows, e4m3, q, at).rows(&s_later[at])
        }),
        case!("blocks of 4", device, |at| {
            new(rows, e4m3, q, at).blocks(4, &of_blocks[at])
        }),
        case!("blocks of 5", device, |at| {
            new(rows, e4m3, q, at).blocks(5, &of_blocks[at])
        }),
        case!("a scale", device, |at| new(rows, e4m3, q, at).tensor(0.5)),
        case!("another scale", device, |at| {
            new(rows, e4m3, q, at).tensor(0.25)
        }),
        case!("a scale, type", device, |at| {
            new(rows, e5m2, q, at).tensor(0.5)
        }),
        case!("a scale, x", device, |at| {
            new(columns, e4m3, q, at).tensor(0.5)
        }),
        case!("a scale, q", device, |at| {
            new(rows, e4m3, q_columns, at).tensor(0.5)
        }),
        case!("computed", device, |at| {
            new(rows, e4m3, q, at).tensor_scale(&one[at])
        }),
        case!("computed, x", device, |at| {
            new(columns, e4m3, q, at).tensor_scale(&one[at])
        }),
        case!("computed, q", device, |at| {
            new(rows, e4m3, q_columns, at).tensor_scale(&one[at])
        }),
        case!("computed, scale later", device, |at| {
            new(rows, e4m3, q, at).tensor_scale(&one_later[at])
        }),
        case!("computed, type", device, |at| {
            new(rows, e5m2, q, at).tensor_scale(&one[at])
        }),
        case!("computed, x later", device, |at| {
            new(later, e4m3, q, at).tensor_scale_by(&one[at], whole)
        }),
    ];
    check(&[&bytes, &signed, &scales], cases)
}

fn convolutions(device: &Device) -> Result<usize, Error> {
    let halves: Vec<bf16> = numbers(2048).into_iter().map(bf16::from_f32).collect();
    let halves = device.upload(&halves)?;
    let (image, few) = (&[1, 7, 7, 16][..], &[8, 3, 3, 16][..]);
    let near = |first| -> Place<'_> { (image, &[784, 112, 16, 1], first) };
    let [x, x_turned, x_later] = [
        read(&halves, near(0))?,
        read(&halves, (image, &[784, 16, 112, 1], 0))?,
        read(&halves, near(16))?,
    ];
    let filter = |first| read(&halves, (few, &[144, 48, 16, 1], first));
    let [w, w_later] = [filter(0)?, filter(64)?];
    let outputs = Outputs::<bf16>::new(device, 64)?;
    let of_words = Outputs::<f32>::new(device, 64)?;
    let out = &[1, 2, 2, 8][..];
    let [y, y_turned, y_later] = [
        outputs.at((out, &[32, 16, 8, 1], 0))?,
        outputs.at((out, &[32, 8, 16, 1], 0))?,
        outputs.at((out, &[32, 16, 8, 1], 8))?,
    ];
    let words = of_words.at((out, &[32, 16, 8, 1], 0))?;
    // Two positions along each mode, by each of these numbers.
    let base = |x: Read<bf16>, w: Read<bf16>, y: Written<bf16>, at: usize| {
        let call = Convolution::new(x, w, &y[at]);
        call.stride([4, 4]).padding([1, 1])
    };
    let cases = vec![
        case!("convolution", device, |at| base(x, w, y, at)),
        case!("x", device, |at| base(x_turned, w, y, at)),
        case!("x, later", device, |at| base(x_later, w, y, at)),
        case!("filters, later", device, |at| base(x, w_later, y, at)),
        case!("y", device, |at| base(x, w, y_turned, at)),
        case!("y, later", device, |at| base(x, w, y_later, at)),
        case!("type of y", device, |at| {
            let call = Convolution::new(x, w, &words[at]);
            call.stride([4, 4]).padding([1, 1])
        }),
        case!("stride along H", device, |at| {
            base(x, w, y, at).stride([5, 4])
        }),
        case!("stride along W", device, |at| {
            base(x, w, y, at).stride([4, 5])
        }),
        case!("dilation along H", device, |at| {
            base(x, w, y, at).dilation([2, 1])
        }),
        case!("dilation along W", device, |at| {
            base(x, w, y, at).dilation([1, 2])
        }),
        case!("padding along H", device, |at| {
            base(x, w, y, at).padding_of([[0, 1], [1, 1]])
        }),
        case!("padding along W", device, |at| {
            base(x, w, y, at).padding_of([[1, 1], [0, 1]])
        }),
    ];
    check(&[&outputs, &of_words], cases)
}

/// Calls that differ in one thing that the caller gives, each of them twice, in turns: the place or the layout of a view, a type, a number,
/// a name, an expression. What `run` finds again computes what a prepared call computes.
#[test]
fn law_calls_that_differ_in_one_thing_are_found_apart() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm90a);
    let all = [
        sums,
        selections,
        maps,
        gathers,
        rotaries,
        quantisations,
        convolutions,
    ];
    let mut cases = 0;
    for of_kind in all {
        cases += of_kind(&device)?;
    }
    println!("law calls.apart: {cases} cases");
    Ok(())
}

/// What calls take of one device. Two devices that make the same have it at the same addresses.
struct Tensors {
    x: Read<f32>,
    halves: Read<bf16>,
    filters: Read<bf16>,
    index: Read<i32>,
    y: &'static ViewMut<'static, f32>,
    of_halves: &'static ViewMut<'static, bf16>,
    indices: &'static ViewMut<'static, i32>,
    q: &'static ViewMut<'static, i8>,
    scales: &'static ViewMut<'static, f32>,
}

impl Tensors {
    fn new(device: &Device) -> Result<Tensors, Error> {
        fn written<T: Element>(
            device: &Device,
            extents: &[i64],
            strides: &[i64],
        ) -> Result<&'static ViewMut<'static, T>, Error> {
            let buffer = Box::leak(Box::new(device.poisoned(64)?));
            Ok(leaked(ViewMut::strided(buffer, extents, strides)?))
        }
        let pixels: (&[i64], &[i64]) = (&[1, 2, 2, 16], &[64, 32, 16, 1]);
        let halves: Vec<bf16> = numbers(64).into_iter().map(bf16::from_f32).collect();
        Ok(Tensors {
            x: read(&device.upload(&numbers(64))?, (&[8, 8], &[8, 1], 0))?,
            halves: read(&device.upload(&halves)?, (pixels.0, pixels.1, 0))?,
            filters: {
                let all = device.upload(&vec![bf16::ONE; 16 * 9 * 16])?;
                read(&all, (&[16, 3, 3, 16], &[144, 48, 16, 1], 0))?
            },
            index: read(&device.upload(&[1_i32; 8])?, (&[8], &[1], 0))?,
            y: written(device, &[8, 8], &[8, 1])?,
            of_halves: written(device, pixels.0, pixels.1)?,
            indices: written(device, &[8, 8], &[8, 1])?,
            q: written(device, &[8, 8], &[8, 1])?,
            scales: written(device, &[8], &[1])?,
        })
    }
}

/// A tensor of another device is refused behind a call that ran, though it lies at the same address there.
#[test]
fn what_lies_on_another_device_is_refused_behind_a_call_that_ran() -> Result<(), Error> {
    let devices = [(); 2].map(|()| Device::simulator(Arch::Sm90a));
    let [own, far] = [Tensors::new(&devices[0])?, Tensors::new(&devices[1])?];
    assert_eq!(own.x.key(), far.x.key());
    assert_eq!(own.indices.key(), far.indices.key());
    let map: MapExpression = "(x: tensor f32, s: scalar f32) -> y { mul(x, s) }".parse()?;
    // Each call takes its tensors of the device that the mask names.
    type Call<'a> = (
        &'a str,
        u32,
        Box<dyn Fn([&Tensors; 3]) -> Result<(), Error> + 'a>,
    );
    let calls: Vec<Call<'_>> = vec![
        (
            "sums",
            2,
            Box::new(|[a, b, _]| Scan::new(a.x, 1, b.y).run()),
        ),
        (
            "selections",
            3,
            Box::new(|[a, b, c]| TopK::new(a.x, 1, b.y, c.indices).run()),
        ),
        (
            "maps",
            2,
            Box::new(|[a, b, _]| {
                let call = Map::new(&map).input("x", a.x).scalar("s", 2.0);
                call.output("y", b.y).run()
            }),
        ),
        (
            "gathers",
            3,
            Box::new(|[a, b, c]| Gather::new(a.x, b.index, c.y).run()),
        ),
        (
            "rotaries",
            2,
            Box::new(|[a, b, _]| Rotary::new(Pairing::Halves, a.halves, b.of_halves).run()),
        ),
        (
            "rows in 8 bits",
            3,
            Box::new(|[a, b, c]| Quantise::new(Ty::S8, a.x, b.q).rows(c.scales).run()),
        ),
        (
            "by a scale",
            2,
            Box::new(|[a, b, _]| Quantise::new(Ty::S8, a.x, b.q).tensor(0.5).run()),
        ),
        (
            "convolutions",
            3,
            Box::new(|[a, b, c]| {
                let call = Convolution::new(a.halves, b.filters, c.of_halves);
                call.padding([1, 1]).run()
            }),
        ),
    ];
    let mut cases = 0;
    for (name, count, call) in &calls {
        for round in 0..2 {
            call([&own; 3])
                .map_err(|error| panic!("{name}, round {round}: {error}"))
                .ok();
            for mask in 1..(1 << count) - 1 {
                let of = [0, 1, 2].map(|i| if mask >> i & 1 == 1 { &far } else { &own });
                let refused = call(of).is_err();
                assert!(refused, "{name}, round {round}, tensors {mask:b} elsewhere");
                cases += 1;
            }
        }
    }
    println!("law calls.elsewhere: {cases} cases");
    Ok(())
}

/// Maps that differ from one that ran in what their expression does not take are refused.
#[test]
fn a_map_with_other_names_is_refused_behind_one_that_ran() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm80);
    let tensors = Tensors::new(&device)?;
    let map: MapExpression = "(x: tensor f32, s: scalar f32) -> y { mul(x, s) }".parse()?;
    let (x, y) = (tensors.x, tensors.y);
    let ready = Map::new(&map).input("x", x).scalar("s", 2.0);
    for _ in 0..2 {
        ready.clone().output("y", y).run()?;
        let refused = [
            ready.clone().input("y", y),
            ready.clone().output("x", y),
            ready.clone().output("y", y).scalar("t", 2.0),
            ready.clone().output("y", y).input("z", x),
            ready.clone().output("y", y).scalar("s", f64::NAN),
            Map::new(&map).input("x", x).output("y", y),
            Map::new(&map).scalar("s", 2.0).output("y", y),
        ];
        let is_refused = refused.map(|call| call.run().is_err());
        // A NaN is a scalar.
        assert_eq!(is_refused, [true, true, true, true, false, true, true]);
    }
    Ok(())
}

/// What is refused by a number or a view alone is refused behind a call that ran.
#[test]
fn a_number_that_is_refused_is_refused_behind_a_call_that_ran() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm90a);
    let tensors = Tensors::new(&device)?;
    let Tensors {
        x,
        y,
        q,
        scales,
        halves,
        filters,
        of_halves,
        ..
    } = tensors;
    let shape: Place<'_> = (&[1, 1, 8, 8], &[64, 64, 8, 1], 0);
    let heads = read(&device.upload(&numbers(64))?, shape)?;
    let to_heads = Outputs::new(&device, 64)?.at(shape)?;
    let rotary = Rotary::new(Pairing::Halves, heads, &to_heads[0]);
    let quantise = Quantise::new(Ty::S8, x, q);
    let [one, two] = [1, 2].map(|count| {
        let outputs = Outputs::<f32>::new(&device, 64)?;
        outputs.at((&[count], &[1], 0))
    });
    let (one, two) = (&one?[0], &two?[0]);
    let convolution = Convolution::new(halves, filters, of_halves).padding([1, 1]);
    let both: MapExpression = "(x: tensor f32) -> y { x } z { neg(x) }".parse()?;
    let z = &Outputs::<f32>::new(&device, 64)?.at((&[8, 8], &[8, 1], 0))?[0];
    let map = Map::new(&both).input("x", x).output("y", y);
    for _ in 0..2 {
        rotary.run()?;
        assert!(rotary.clone().features(0).run().is_err());
        quantise.clone().rows(scales).run()?;
        assert!(quantise.clone().blocks(0, scales).run().is_err());
        quantise.clone().tensor_scale(one).run()?;
        assert!(quantise.clone().tensor_scale(two).run().is_err());
        convolution.run()?;
        for padding in [[[1, 9], [1, 1]], [[1, 1], [1, 9]]] {
            assert!(convolution.clone().padding_of(padding).run().is_err());
        }
        map.clone().output("z", z).run()?;
        assert!(map.clone().input("z", z).run().is_err());
    }
    Ok(())
}

//! Formulas as data: an expression over inputs that compares, prints, parses and is sent between threads.

use core::fmt;
use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use colex_atom::Ty;
use colex_ir::{BinaryOp, Compare, UnaryOp};

use super::{Expr, ExprData, ExprNode, Mask, Round, Saturate, Test};
use crate::build::flow::Cond;
use crate::error::{Error, ErrorKind};
use crate::fragment::elementwise::poison;

/// An expression over numbered inputs as data: the steps of an [`Expr`], each of them once.
///
/// Two formulas are equal if they have the same steps. The text is a sequence of steps that are used several times, and the
/// result; input `i` of type `f32` is `xi:f32`. It parses to an equal formula, and it is the serialised form.
///
/// ```
/// use colex_atom::Ty;
/// use colex_tensor::{Expr, Formula};
///
/// let (x, bias) = (Expr::input(0, Ty::F32), Expr::input(1, Ty::F32));
/// let sum = &x + &bias;
/// let formula = (&sum * &sum).relu().to(Ty::F16).formula()?;
/// assert_eq!(formula.to_string(), "t0 = add(x0:f32, x1:f32); cvt.rn.f16(max(mul(t0, t0), 0))");
/// assert_eq!(formula, formula.to_string().parse()?);
/// let bits = |x: f32| u64::from(x.to_bits());
/// assert_eq!(formula.evaluate(&[bits(1.0), bits(-3.0)])?, 0x4400); // 4
/// # Ok::<(), colex_tensor::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Formula {
    /// Each of them after those that it reads; the last is the result.
    steps: Arc<[Step]>,
    ty: Ty,
}

/// A step, with the numbers of the steps that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Input(usize, Ty),
    /// The bits of a binary64.
    Real(u64),
    Integer(i128),
    Convert(usize, Ty, Round, Saturate),
    Unary(UnaryOp, usize),
    Binary(BinaryOp, usize, usize),
    Fma([usize; 3]),
    Select([usize; 3]),
    Compare(Compare, usize, usize),
    Both(BinaryOp, usize, usize),
    Not(usize),
    Holds(bool),
}

/// What a step is worth: an element, or a condition on one.
#[derive(Clone)]
enum Value {
    Element(Expr),
    Condition(Mask),
}

/// How deep the text nests before it names a step.
const DEPTH: usize = 12;

/// How deep a text may nest.
const MOST_DEPTH: usize = 200;

/// How many steps of a formula may follow each other, where each reads the one before: what walks over an expression calls itself.
const MOST_LEVELS: usize = 1024;

/// The roundings as PTX spells them.
const ROUNDS: [(Round, &str); 4] = [
    (Round::Nearest, "rn"),
    (Round::Zero, "rz"),
    (Round::Down, "rm"),
    (Round::Up, "rp"),
];

/// The steps of expressions, each once.
#[derive(Default)]
struct Steps {
    all: Vec<Step>,
    numbers: HashMap<Step, usize>,
    known: HashMap<*const ExprData, usize>,
    tested: HashMap<*const Test, usize>,
}

impl Steps {
    fn number(&mut self, step: Step) -> usize {
        let next = self.all.len();
        let number = *self.numbers.entry(step).or_insert(next);
        if number == next {
            self.all.push(step);
        }
        number
    }

    fn of(&mut self, expr: &Expr) -> Result<usize, ErrorKind> {
        let key = Rc::as_ptr(&expr.0);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let step = match &expr.0.node {
            ExprNode::Input(i) => Step::Input(*i, expr.ty().unwrap_or(Ty::F32)),
            ExprNode::Real(x) => Step::Real(if x.is_nan() { f64::NAN } else { *x }.to_bits()),
            ExprNode::Integer(x) => Step::Integer(*x),
            ExprNode::Convert(x, round, saturate) => {
                Step::Convert(self.of(x)?, expr.ty().unwrap_or(Ty::F32), *round, *saturate)
            }
            ExprNode::Unary(op, x) => Step::Unary(*op, self.of(x)?),
            ExprNode::Binary(op, a, b) => Step::Binary(*op, self.of(a)?, self.of(b)?),
            ExprNode::Fma([a, b, c]) => Step::Fma([self.of(a)?, self.of(b)?, self.of(c)?]),
            ExprNode::Select(mask, a, b) => {
                Step::Select([self.condition(mask)?, self.of(a)?, self.of(b)?])
            }
            ExprNode::Poison(kind) => return Err(kind.clone()),
            ExprNode::Fragment(_) | ExprNode::Register(_) | ExprNode::Indices(..) => {
                return Err(kernel_only());
            }
        };
        let number = self.number(step);
        self.known.insert(key, number);
        Ok(number)
    }

    fn condition(&mut self, mask: &Mask) -> Result<usize, ErrorKind> {
        let key = Rc::as_ptr(&mask.0);
        if let Some(known) = self.tested.get(&key) {
            return Ok(*known);
        }
        let step = match &*mask.0 {
            Test::Compare(cmp, a, b, _) => Step::Compare(*cmp, self.of(a)?, self.of(b)?),
            Test::Both(op, a, b) => Step::Both(*op, self.condition(a)?, self.condition(b)?),
            Test::Not(a) => Step::Not(self.condition(a)?),
            Test::Conds(conds) => match conds[..] {
                [Cond::Known(known)] => Step::Holds(known),
                _ => return Err(kernel_only()),
            },
            Test::Poison(kind, _) => return Err(kind.clone()),
        };
        let number = self.number(step);
        self.tested.insert(key, number);
        Ok(number)
    }

    /// How many steps follow each other, where each reads the one before.
    fn levels(&self) -> usize {
        let mut levels: Vec<usize> = Vec::with_capacity(self.all.len());
        for step in &self.all {
            let below = step.reads().map(|of| levels[of]).max();
            levels.push(below.map_or(0, |below| below + 1));
        }
        levels.into_iter().max().unwrap_or(0)
    }
}

/// The steps that follow each other in a formula, each of which reads the one before, are no more.
fn deep(levels: usize) -> String {
    format!("{levels} steps follow each other, and a formula has at most {MOST_LEVELS}")
}

fn kernel_only() -> ErrorKind {
    let why =
        "fragments, registers, indices and predicates are a kernel's: a formula is over `input`s";
    ErrorKind::operands("formula", why)
}

impl Expr {
    /// Returns the expression as data.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let x = Expr::input(0, Ty::S32);
    /// assert_eq!(x.clamp(0, 6).formula()?.to_string(), "min(max(x0:s32, 0), 6)");
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the expression contains what only a kernel knows (fragments, registers,
    /// [`Index`](crate::Index)es), if it has no type since it consists of constants, or if it was refused when it was made, with
    /// the line of that call. It fails too if more than 1024 operations follow each other, where each reads the one before.
    #[track_caller]
    pub fn formula(&self) -> Result<Formula, Error> {
        let at = Location::caller();
        if let Some((kind, at)) = poison(self, at) {
            return Err(Error::at_call(kind, at));
        }
        let mut steps = Steps::default();
        let found = steps.of(self).and_then(|result| {
            let ty = self.ty().ok_or_else(|| {
                ErrorKind::operands("formula", "constants alone have no type: `.to` states it")
            })?;
            match steps.levels() {
                levels if levels > MOST_LEVELS => Err(ErrorKind::operands("formula", deep(levels))),
                _ => Ok((result, ty)),
            }
        });
        let (result, ty) = found.map_err(|kind| Error::at_call(kind, at))?;
        debug_assert_eq!(result + 1, steps.all.len());
        let steps = steps.all.into();
        Ok(Formula { steps, ty })
    }
}

/// Whether the special function units execute a step.
fn is_special_function(step: &Step) -> bool {
    let Step::Unary(op, _) = step else {
        return false;
    };
    match op {
        UnaryOp::Cos
        | UnaryOp::Ex2
        | UnaryOp::Lg2
        | UnaryOp::Rcp
        | UnaryOp::Rsqrt
        | UnaryOp::Sin
        | UnaryOp::Sqrt
        | UnaryOp::Tanh => true,
        UnaryOp::Abs
        | UnaryOp::Bfind
        | UnaryOp::Brev
        | UnaryOp::Clz
        | UnaryOp::Neg
        | UnaryOp::Not
        | UnaryOp::Popc => false,
    }
}

impl Formula {
    /// Returns the expression over [inputs](Expr::input).
    ///
    /// ```
    /// # use colex_tensor::{Formula, prelude::*};
    /// let square: Formula = "mul(x0:f16, x0:f16)".parse()?;
    /// assert_eq!(square.expr().ty(), Some(Ty::F16));
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    pub fn expr(&self) -> Expr {
        let at = Location::caller();
        let mut all: Vec<Value> = Vec::new();
        for step in self.steps.iter() {
            let element = |i: &usize| match &all[*i] {
                Value::Element(expr) => expr.clone(),
                Value::Condition(_) => unreachable!("the steps of an expression have their kinds"),
            };
            let condition = |i: &usize| match &all[*i] {
                Value::Condition(mask) => mask.clone(),
                Value::Element(_) => unreachable!("the steps of an expression have their kinds"),
            };
            all.push(match step {
                Step::Input(i, ty) => Value::Element(Expr::input(*i, *ty)),
                Step::Real(bits) => Value::Element(f64::from_bits(*bits).into()),
                Step::Integer(x) => Value::Element(Expr::new(ExprNode::Integer(*x), None, at)),
                Step::Convert(x, ty, round, saturate) => {
                    Value::Element(element(x).converted(*ty, *round, *saturate))
                }
                Step::Unary(op, x) => Value::Element(Expr::unary(*op, element(x))),
                Step::Binary(op, a, b) => Value::Element(Expr::binary(*op, element(a), element(b))),
                Step::Fma([a, b, c]) => Value::Element(element(a).fma(element(b), element(c))),
                Step::Select([test, a, b]) => {
                    Value::Element(condition(test).select(element(a), element(b)))
                }
                Step::Compare(cmp, a, b) => Value::Condition(element(a).compare(*cmp, element(b))),
                Step::Both(op, a, b) => Value::Condition(both(*op, condition(a), condition(b))),
                Step::Not(a) => Value::Condition(!condition(a)),
                Step::Holds(known) => Value::Condition(Cond::Known(*known).into()),
            });
        }
        match all.pop() {
            Some(Value::Element(expr)) => expr,
            _ => unreachable!("a formula ends with an element"),
        }
    }

    /// Returns the type of the value.
    ///
    /// ```
    /// # use colex_tensor::{Formula, prelude::*};
    /// assert_eq!("cvt.rz.s8(x0:f32)".parse::<Formula>()?.ty(), Ty::S8);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    pub fn ty(&self) -> Ty {
        self.ty
    }

    /// Returns the inputs that the value depends on, with their types.
    ///
    /// ```
    /// # use colex_tensor::{Formula, prelude::*};
    /// let formula: Formula = "add(x2:f32, cvt.rn.f32(x0:f16))".parse()?;
    /// assert_eq!(formula.inputs().collect::<Vec<_>>(), [(2, Ty::F32), (0, Ty::F16)]);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    pub fn inputs(&self) -> impl Iterator<Item = (usize, Ty)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Input(i, ty) => Some((*i, *ty)),
            _ => None,
        })
    }

    /// Returns the formula with other numbers for its inputs: `number` of each.
    ///
    /// ```
    /// # use colex_tensor::Formula;
    /// let formula: Formula = "sub(x7:f32, x5:f32)".parse()?;
    /// assert_eq!(formula.renumbered(|number| number - 5).to_string(), "sub(x2:f32, x0:f32)");
    /// // A step that stands twice is one step.
    /// let square: Formula = "mul(x0:f32, x0:f32)".parse()?;
    /// assert_eq!(formula.renumbered(|_| 0).to_string(), "sub(x0:f32, x0:f32)");
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    pub fn renumbered(&self, number: impl Fn(usize) -> usize) -> Formula {
        let steps = self.steps.iter().map(|step| match step {
            Step::Input(i, ty) => Step::Input(number(*i), *ty),
            other => *other,
        });
        let formula = Formula {
            steps: steps.collect(),
            ty: self.ty,
        };
        // Inputs that have one number now are one step.
        formula.expr().formula().unwrap_or(formula)
    }

    /// Returns an estimate of the slots in which a multiprocessor issues the arithmetic of one element: one for each step, and
    /// eight for one of the special function units, which have 16 lanes beside 128 (CUDA C++ Programming Guide, "Arithmetic
    /// Instructions"). Inputs and constants take none.
    ///
    /// ```
    /// # use colex_tensor::{Formula, prelude::*};
    /// let (x, y) = (Expr::input(0, Ty::F32), Expr::input(1, Ty::F32));
    /// assert_eq!(x.fma(2.0, y.exp2()).formula()?.issue_slots(), 9);
    /// assert_eq!("x0:f32".parse::<Formula>()?.issue_slots(), 0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    pub fn issue_slots(&self) -> u32 {
        let of = |step: &Step| match step {
            Step::Input(..) | Step::Real(_) | Step::Integer(_) | Step::Holds(_) => 0,
            step if is_special_function(step) => 8,
            _ => 1,
        };
        self.steps.iter().map(of).sum()
    }

    /// Returns the number of steps that the special function units execute: powers, logarithms, reciprocals, roots, sines, cosines
    /// and the hyperbolic tangent. They take 8 of the [slots](Formula::issue_slots) each, and one instruction.
    ///
    /// ```
    /// # use colex_tensor::{Formula, prelude::*};
    /// let x = Expr::input(0, Ty::F32);
    /// assert_eq!(x.fma(2.0, x.exp2()).formula()?.special_functions(), 1);
    /// assert_eq!(x.gelu_tanh().formula()?.special_functions(), 2);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    pub fn special_functions(&self) -> u32 {
        let found = self.steps.iter().filter(|step| is_special_function(step));
        found.fold(0, |count: u32, _| count.saturating_add(1))
    }

    /// Returns the value over inputs, as [`Expr::evaluate`] does.
    ///
    /// ```
    /// # use colex_tensor::Formula;
    /// assert_eq!("fma(x0:s32, 3, x1:s32)".parse::<Formula>()?.evaluate(&[5, 1])?, 16);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there are fewer inputs than the formula has.
    #[track_caller]
    pub fn evaluate(&self, inputs: &[u64]) -> Result<u64, Error> {
        self.expr().evaluate(inputs)
    }

    /// Returns the text with names in the place of the inputs: the name at place `i` for input `i`.
    ///
    /// ```
    /// # use colex_tensor::Formula;
    /// let formula: Formula = "add(x0:f32, x1:f32)".parse()?;
    /// assert_eq!(formula.named(&["acc", "bias"]), "add(acc, bias)");
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    pub fn named(&self, names: &[&str]) -> String {
        self.text(&|i, ty| match names.get(i) {
            Some(name) => name.to_string(),
            None => format!("x{i}:{ty}"),
        })
    }

    /// Reads a formula from its text with names in the place of the inputs.
    ///
    /// ```
    /// # use colex_tensor::{Formula, prelude::*};
    /// let inputs = [("acc", Ty::F32), ("bias", Ty::F32)];
    /// let formula = Formula::parse("add(acc, bias)", &inputs)?;
    /// assert_eq!(formula.to_string(), "add(x0:f32, x1:f32)");
    /// let error = Formula::parse("add(acc, scale)", &inputs).unwrap_err();
    /// assert_eq!(error.what(), "formula: at byte 9 there is no `scale`: the inputs are acc and bias");
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error that says what is wrong at which byte, or which types do not meet.
    #[track_caller]
    pub fn parse(text: &str, inputs: &[(&str, Ty)]) -> Result<Formula, Error> {
        let find = |name: &str| {
            let at = inputs.iter().position(|(known, _)| *known == name)?;
            Some((at, inputs[at].1))
        };
        let names: Vec<&str> = inputs.iter().map(|(name, _)| *name).collect();
        let there = match &names[..] {
            [] => "there are no inputs".to_string(),
            [one] => format!("the input is {one}"),
            [some @ .., last] => format!("the inputs are {} and {last}", some.join(", ")),
        };
        Parser::new(text, &find, &there).formula()
    }

    fn text(&self, input: &dyn Fn(usize, Ty) -> String) -> String {
        let mut uses = vec![0; self.steps.len()];
        let mut nested = vec![0; self.steps.len()];
        for step in self.steps.iter() {
            step.reads().for_each(|i| uses[i] += 1);
        }
        let mut text = String::new();
        let (mut words, mut names): (Vec<String>, usize) = (Vec::new(), 0);
        for (i, step) in self.steps.iter().enumerate() {
            let deepest = step.reads().map(|of| nested[of]).max();
            nested[i] = deepest.map_or(0, |deepest| deepest + 1);
            let word = step.word(&words, input);
            let is_last = i + 1 == self.steps.len();
            if !is_last && nested[i] > 0 && (uses[i] > 1 || nested[i] == DEPTH) {
                text += &format!("t{names} = {word}; ");
                words.push(format!("t{names}"));
                names += 1;
                nested[i] = 0;
            } else {
                words.push(word);
            }
        }
        text + &words.pop().unwrap_or_default()
    }
}

impl Step {
    /// The steps that it reads.
    fn reads(&self) -> impl Iterator<Item = usize> {
        let all = match *self {
            Step::Input(..) | Step::Real(_) | Step::Integer(_) | Step::Holds(_) => [None; 3],
            Step::Convert(x, ..) | Step::Unary(_, x) | Step::Not(x) => [Some(x), None, None],
            Step::Binary(_, a, b) | Step::Compare(_, a, b) | Step::Both(_, a, b) => {
                [Some(a), Some(b), None]
            }
            Step::Fma(three) | Step::Select(three) => three.map(Some),
        };
        all.into_iter().flatten()
    }

    /// Its text over those of the steps before it.
    fn word(&self, words: &[String], input: &dyn Fn(usize, Ty) -> String) -> String {
        let name = match self {
            Step::Input(i, ty) => return input(*i, *ty),
            Step::Real(bits) => return format!("{:?}", f64::from_bits(*bits)),
            Step::Integer(x) => return x.to_string(),
            Step::Holds(known) => return known.to_string(),
            Step::Convert(_, ty, round, saturate) => {
                let round = ROUNDS.iter().find(|(one, _)| one == round);
                let round = round.map_or("rn", |(_, name)| name);
                let saturate = match saturate {
                    Saturate::Clamp => ".sat",
                    Saturate::Wrap => "",
                };
                format!("cvt.{round}{saturate}.{ty}")
            }
            Step::Unary(op, _) => op.ptx().to_string(),
            Step::Binary(op, ..) | Step::Both(op, ..) => op.ptx().to_string(),
            Step::Compare(cmp, ..) => cmp.ptx().to_string(),
            Step::Fma(_) => "fma".to_string(),
            Step::Select(_) => "select".to_string(),
            Step::Not(_) => "not".to_string(),
        };
        let operands: Vec<&str> = self.reads().map(|i| &words[i][..]).collect();
        format!("{name}({})", operands.join(", "))
    }
}

fn both(op: BinaryOp, a: Mask, b: Mask) -> Mask {
    Mask(Rc::new(Test::Both(op, a, b)))
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&|i, ty| format!("x{i}:{ty}")))
    }
}

impl fmt::Debug for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Formula {
    type Err = Error;

    fn from_str(text: &str) -> Result<Formula, Error> {
        let find = |word: &str| {
            let (number, ty) = word.strip_prefix('x')?.split_once(':')?;
            Some((number.parse().ok()?, type_named(ty)?))
        };
        let there = "an input is written as `x0:f32`";
        Parser::new(text, &find, there).formula()
    }
}

/// The type that PTX spells so.
fn type_named(name: &str) -> Option<Ty> {
    Ty::ALL.into_iter().find(|ty| ty.to_string() == name)
}

/// The text from a byte on.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    input: &'a dyn Fn(&str) -> Option<(usize, Ty)>,
    /// What to say of a name that is none.
    there: &'a str,
    named: HashMap<&'a str, Leveled>,
    caller: &'static Location<'static>,
}

type Parsed<T> = Result<T, Error>;

/// A value, and how many operations follow each other in it.
#[derive(Clone)]
struct Leveled {
    value: Value,
    levels: usize,
}

impl From<Value> for Leveled {
    fn from(value: Value) -> Leveled {
        Leveled { value, levels: 0 }
    }
}

impl<'a> Parser<'a> {
    #[track_caller]
    fn new(
        text: &'a str,
        input: &'a dyn Fn(&str) -> Option<(usize, Ty)>,
        there: &'a str,
    ) -> Parser<'a> {
        Parser {
            text,
            at: 0,
            depth: 0,
            input,
            there,
            named: HashMap::new(),
            caller: Location::caller(),
        }
    }

    fn refuse<T>(&self, at: usize, why: impl fmt::Display) -> Parsed<T> {
        let why = format!("at byte {at} {why}");
        Err(Error::at_call(
            ErrorKind::operands("formula", why),
            self.caller,
        ))
    }

    fn skip(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes a mark, if it comes next.
    fn takes(&mut self, mark: char) -> bool {
        self.skip();
        let found = self.text[self.at..].starts_with(mark);
        self.at += if found { mark.len_utf8() } else { 0 };
        found
    }

    fn expects(&mut self, mark: char) -> Parsed<()> {
        if self.takes(mark) {
            return Ok(());
        }
        let found = self.text[self.at..].chars().next();
        let found = found.map_or("the end".to_string(), |found| format!("`{found}`"));
        self.refuse(
            self.at,
            format!("there is {found}, and `{mark}` is expected"),
        )
    }

    fn word(&mut self) -> Parsed<&'a str> {
        self.skip();
        let rest = &self.text[self.at..];
        let is_mark = |c: char| c.is_whitespace() || "(),;={}".contains(c);
        let word = &rest[..rest.find(is_mark).unwrap_or(rest.len())];
        if word.is_empty() {
            return self.refuse(self.at, "a name, a number or an operation is expected");
        }
        self.at += word.len();
        Ok(word)
    }

    fn formula(mut self) -> Parsed<Formula> {
        loop {
            self.skip();
            let before = self.at;
            let value = if let (Ok(word), true) = (self.word(), self.takes('=')) {
                let value = self.value()?;
                self.expects(';')?;
                self.named.insert(word, value);
                continue;
            } else {
                self.at = before;
                self.value()?
            };
            self.skip();
            if self.at < self.text.len() {
                return self.refuse(self.at, "the formula has ended");
            }
            return match value.value {
                Value::Element(expr) => {
                    let found = expr.formula();
                    found.map_err(|error| Error::at_call(error.kind().kind.clone(), self.caller))
                }
                Value::Condition(_) => self.refuse(before, "there is a condition, and no element"),
            };
        }
    }

    fn value(&mut self) -> Parsed<Leveled> {
        self.skip();
        let start = self.at;
        let word = self.word()?;
        if !self.takes('(') {
            if let Some(known) = self.named.get(word) {
                return Ok(known.clone());
            }
            return self.leaf(start, word).map(Leveled::from);
        }
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return self.refuse(start, format!("there are more than {MOST_DEPTH} levels"));
        }
        let mut operands = vec![self.value()?];
        while self.takes(',') {
            operands.push(self.value()?);
        }
        self.expects(')')?;
        self.depth -= 1;
        let deepest = operands.iter().map(|operand| operand.levels).max();
        let levels = deepest.map_or(1, |deepest| deepest + 1);
        if levels > MOST_LEVELS {
            return self.refuse(start, deep(levels));
        }
        let operands = operands.into_iter().map(|operand| operand.value).collect();
        let value = self.operation(start, word, operands)?;
        Ok(Leveled { value, levels })
    }

    fn leaf(&self, start: usize, word: &str) -> Parsed<Value> {
        if let Some((number, ty)) = (self.input)(word) {
            return Ok(Value::Element(Expr::input(number, ty)));
        }
        match word {
            "true" | "false" => return Ok(Value::Condition(Cond::Known(word == "true").into())),
            "inf" => return Ok(Value::Element(f64::INFINITY.into())),
            "-inf" => return Ok(Value::Element(f64::NEG_INFINITY.into())),
            "NaN" => return Ok(Value::Element(f64::NAN.into())),
            _ => {}
        }
        let is_number = word.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        match (word.parse::<i128>(), word.parse::<f64>()) {
            (Ok(x), _) => Ok(Value::Element(Expr::new(
                ExprNode::Integer(x),
                None,
                self.caller,
            ))),
            (_, Ok(x)) if is_number => Ok(Value::Element(x.into())),
            _ => self.refuse(start, format!("there is no `{word}`: {}", self.there)),
        }
    }

    fn operation(&self, start: usize, name: &str, operands: Vec<Value>) -> Parsed<Value> {
        use Value::{Condition, Element};
        let conversion = name.strip_prefix("cvt.").and_then(conversion);
        let unary = UnaryOp::ALL.iter().find(|op| op.ptx() == name);
        let binary = BinaryOp::ALL.iter().find(|op| op.ptx() == name);
        let compare = Compare::ALL.iter().find(|cmp| cmp.ptx() == name);
        Ok(match (&operands[..], conversion, unary, binary, compare) {
            ([Element(x)], Some((ty, round, saturate)), ..) => {
                Element(x.converted(ty, round, saturate))
            }
            ([Condition(x)], _, Some(UnaryOp::Not), ..) => Condition(!x.clone()),
            ([Element(x)], _, Some(op), ..) => Element(Expr::unary(*op, x)),
            ([Element(a), Element(b)], _, _, Some(op), _) => Element(Expr::binary(*op, a, b)),
            (
                [Condition(a), Condition(b)],
                _,
                _,
                Some(op @ (BinaryOp::And | BinaryOp::Or | BinaryOp::Xor)),
                _,
            ) => Condition(both(*op, a.clone(), b.clone())),
            ([Element(a), Element(b)], _, _, _, Some(cmp)) => Condition(a.compare(*cmp, b.clone())),
            ([Element(a), Element(b), Element(c)], ..) if name == "fma" => Element(a.fma(b, c)),
            ([Condition(test), Element(a), Element(b)], ..) if name == "select" => {
                Element(test.select(a, b))
            }
            (operands, ..) => {
                let kind = |value: &Value| match value {
                    Element(_) => "an element",
                    Condition(_) => "a condition",
                };
                let kinds: Vec<&str> = operands.iter().map(kind).collect();
                let why = format!("there is no operation `{name}` of {}", kinds.join(", "));
                return self.refuse(start, why);
            }
        })
    }
}

/// What a conversion's name says after `cvt.`.
fn conversion(name: &str) -> Option<(Ty, Round, Saturate)> {
    let (round, rest) = name.split_once('.')?;
    let (round, _) = ROUNDS.iter().find(|(_, own)| *own == round)?;
    let (saturate, ty) = match rest.strip_prefix("sat.") {
        Some(ty) => (Saturate::Clamp, ty),
        None => (Saturate::Wrap, rest),
    };
    Some((type_named(ty)?, *round, saturate))
}

#[cfg(feature = "serde")]
impl serde::Serialize for Formula {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Formula {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

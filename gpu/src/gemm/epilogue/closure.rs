//! Closures of epilogues: what a kernel's author writes over a thread's elements and their coordinates, where no expression says it.

use core::fmt;
use std::any::TypeId;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use colex_atom::Ty;
use colex_tensor::{Builder, Error, Expr, Formula, Fragment, Index, Tensor};

/// The function of a closure: it adds instructions to a kernel, and returns the elements.
pub(super) type Body =
    dyn Fn(&mut Builder, &[Fragment], &EpilogueElements) -> Result<Expr, Error> + Send + Sync;

/// A closure of an epilogue, which [`EpilogueBuilder::apply`](super::expression::EpilogueBuilder::apply) adds.
///
/// Two closures are equal if their names, versions, types and arguments are: the process has one function for a name and a version.
#[derive(Clone)]
pub struct EpilogueClosure {
    /// The name of the function. The input that holds its elements has this name, and from the second use on a number behind it:
    /// `rotate`, `rotate_2`.
    pub name: String,
    /// The version of the function.
    pub version: u32,
    /// The type of the elements that it returns.
    pub ty: Ty,
    /// The formulas of its arguments over the epilogue's inputs before it.
    pub arguments: Vec<Formula>,
    pub(super) body: Arc<Body>,
}

impl PartialEq for EpilogueClosure {
    fn eq(&self, other: &EpilogueClosure) -> bool {
        self.key() == other.key()
    }
}

impl Eq for EpilogueClosure {}

impl Hash for EpilogueClosure {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Debug for EpilogueClosure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: closure {}", self.name, self.version)
    }
}

impl EpilogueClosure {
    fn key(&self) -> (&str, u32, Ty, &[Formula]) {
        (&self.name, self.version, self.ty, &self.arguments)
    }
}

/// A function that the process has under a name and a version.
struct KnownFunction {
    of: TypeId,
    arguments: usize,
    ty: Ty,
    body: Arc<Body>,
}

/// The functions of the process: an epilogue's text names one, and the caches of kernels take the name for the function.
static KNOWN: LazyLock<Mutex<HashMap<(String, u32), KnownFunction>>> =
    LazyLock::new(Mutex::default);

/// The name of the input with the elements of a function that was used `before` times.
pub(super) fn input_name(function: &str, before: usize) -> String {
    match before {
        0 => function.to_string(),
        _ => format!("{function}_{}", before + 1),
    }
}

/// Keeps a function under its name and version, and returns it.
///
/// # Errors
///
/// Returns a sentence if the function captures values, or if another one has the name and the version.
pub(super) fn register<const N: usize, F>(
    (name, version): (&str, u32),
    ty: Ty,
    function: F,
) -> Result<Arc<Body>, String>
where
    F: Fn(&mut Builder, [Fragment; N], &EpilogueElements) -> Result<Expr, Error>
        + Send
        + Sync
        + 'static,
{
    let bytes = size_of::<F>();
    if bytes > 0 {
        return Err(format!(
            "the closure {name} captures {bytes} bytes, of which its name says nothing: give them as arguments"
        ));
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = known.entry((name.to_string(), version));
    let of = TypeId::of::<F>();
    let own = entry.or_insert_with(|| KnownFunction {
        of,
        arguments: N,
        ty,
        body: Arc::new(move |k, arguments, elements| {
            let arguments = <[Fragment; N]>::try_from(arguments.to_vec());
            let arguments = arguments.map_err(|given| {
                let why = format!("{} arguments for a function of {N}", given.len());
                Error::new("closure", why)
            })?;
            function(k, arguments, elements)
        }),
    });
    if own.of != of || own.ty != ty {
        return Err(format!(
            "the closure {name} of version {version} is another function in this process: a name and a version stand for one"
        ));
    }
    Ok(Arc::clone(&own.body))
}

/// Returns the function of a name and a version, if the process has it with that type and number of arguments.
pub(super) fn known((name, version): (&str, u32), ty: Ty, arguments: usize) -> Option<Arc<Body>> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let own = known.get(&(name.to_string(), version))?;
    (own.ty == ty && own.arguments == arguments).then(|| Arc::clone(&own.body))
}

/// Where in C the elements of a thread lie that a closure computes: their coordinates, by the index in its fragments.
#[derive(Clone, Debug)]
pub struct EpilogueElements {
    rows: Vec<Index>,
    columns: Vec<Index>,
}

impl EpilogueElements {
    /// The elements of a thread's part of the coordinates, which are those of C's transpose in a product that is turned.
    pub(super) fn new(part: &Tensor, count: i64, is_turned: bool) -> EpilogueElements {
        let all = 0..count;
        let (mut rows, mut columns) = all
            .map(|i| {
                let mut at = part.coordinates(i).into_iter();
                let mut next = || at.next().unwrap_or_else(|| 0.into());
                (next(), next())
            })
            .unzip();
        if is_turned {
            (rows, columns) = (columns, rows);
        }
        EpilogueElements { rows, columns }
    }

    /// Returns the rows of the elements in C. An element beyond C, which is not stored, has a row or a column beyond the last.
    /// `Expr::from(&row)` is a row as a number of a formula.
    pub fn rows(&self) -> &[Index] {
        &self.rows
    }

    /// Returns the columns of the elements in C.
    pub fn columns(&self) -> &[Index] {
        &self.columns
    }

    /// Returns the elements as pairs of neighbours in a row, by their indices: the first has an even column, and the second the next
    /// one.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread does not have both elements of each pair.
    pub fn pairs_of_columns(&self) -> Result<Vec<[i64; 2]>, Error> {
        let apart = |of: &[Index], i: usize, j: usize| (&of[j] - &of[i]).as_constant();
        let is_even = |i: &usize| self.columns[*i].alignment() % 2 == 0;
        let count = self.columns.len();
        let pair = |i: usize| {
            // Most often it is the next one.
            let others = (i + 1..count).chain(0..i);
            let is_next = |j: &usize| {
                apart(&self.columns, i, *j) == Some(1) && apart(&self.rows, i, *j) == Some(0)
            };
            others
                .into_iter()
                .find(is_next)
                .map(|j| [i as i64, j as i64])
        };
        let pairs: Option<Vec<[i64; 2]>> = (0..count).filter(is_even).map(pair).collect();
        match pairs {
            Some(pairs) if 2 * pairs.len() == count => Ok(pairs),
            _ => Err(Error::new(
                "pairs_of_columns",
                "a thread of this kernel does not have both elements of each pair of columns 2j and 2j + 1: another plan or a \
                 C by rows has them",
            )),
        }
    }
}

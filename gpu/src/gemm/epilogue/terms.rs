//! The lowering of epilogues: loads of the elements that a formula reads, the formulas, and the stores beside C.
//!
//! All kernels take the same way: a thread has some accumulators, and a function that cuts its part of any tensor of the shape
//! (M,N) in their order. The coordinates of that part say which elements of a tensor are distinct: along a mode of stride 0 there
//! is one.

use colex_atom::Ty;
use colex_ir::{Reg, Stmt, Sync, SyncEffect, Type};
use colex_layout::{Int, Layout, Stride};
use colex_tensor::{Builder, Elements, Expr, Formula, Fragment, Index, Tensor, TmaTensor};
use colex_tiled::Operand;
use core::slice::Iter;

use super::awaited::AwaitedFlags;
use super::closure::{EpilogueClosure, EpilogueElements};
use super::convert::sum_type;
use super::expression::{Epilogue, EpilogueInputKind};
use crate::gemm::batch::BatchForm;
use crate::gemm::groups::tiles::Span;
use crate::gemm::plan::{GemmPlan, Operands};
use crate::gemm::problem::MOST_EXTENT;
use crate::kernels::Major;

/// What a kernel is built from: an epilogue, and the forms of its tensors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KernelEpilogue {
    pub(crate) epilogue: Epilogue,
    /// Those of the tensors that are read, in their order, then those of the outputs beside C.
    pub(crate) forms: Vec<Form>,
    /// Whether it waits for flags before it reads them.
    pub(crate) awaits: bool,
    /// Whether the caller gives it. A kernel for several widths has those of whole parts of C then.
    pub(crate) is_own: bool,
}

/// The facts about a tensor that a kernel is built from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    /// Its modes M and N, and those of a batch: extents and strides are arguments of the launch, but strides of 0 and 1.
    pub(crate) layout: Layout,
    /// The mode along which neighbours are contiguous, and the number of them that an access may take.
    pub(crate) run: Option<(usize, i64)>,
    /// Whether it is one matrix whose rows (or columns) are `run`s of 16 bytes and more: a tensor map describes it.
    pub(crate) is_mapped: bool,
    /// The mode whose coordinates are the numbers of a list.
    pub(crate) listed: Option<usize>,
}

/// The type of a scalar argument.
pub(crate) fn scalar_type(ty: Ty) -> Type {
    match ty {
        Ty::F64 => Type::F64,
        Ty::S32 => Type::S32,
        _ => Type::F32,
    }
}

impl Form {
    /// The form of matrices of elements of `bytes` bytes at an address, whose modes are coalesced.
    pub(crate) fn of(matrix: &Layout, address: u64, bytes: i64) -> Form {
        let modes: Vec<Layout> = matrix.modes().collect();
        let stride = |stride: &Stride| stride.coefficient().value();
        let open = |(at, mode): (usize, &Layout)| {
            // Values for reports, whose product has 63 bits.
            let extent = if at < 2 { 256 } else { 16 };
            let leaves = mode.leaves().iter().map(|leaf| {
                let stride = match stride(&leaf.stride) {
                    fixed @ (0 | 1) => Int::Static(fixed),
                    _ => Int::Dynamic(4096),
                };
                Layout::leaf(Int::Dynamic(extent), stride).expect("one leaf")
            });
            let leaves: Vec<Layout> = leaves.collect();
            match &leaves[..] {
                [one] if mode.is_leaf() => one.clone(),
                all => Layout::concat(all).expect("positive extents make a layout"),
            }
        };
        let run = [1, 0].into_iter().find_map(|along| {
            let [one] = modes[along].leaves()[..] else {
                return None;
            };
            let others = modes.iter().enumerate().filter(|(i, _)| *i != along);
            let others: Vec<_> = others.flat_map(|(_, mode)| mode.leaves()).collect();
            let fits = |n: &i64| {
                address.is_multiple_of((n * bytes) as u64)
                    && one.extent.value() % n == 0
                    && others.iter().all(|leaf| stride(&leaf.stride) % n == 0)
            };
            let widths = [16, 8, 4, 2]
                .into_iter()
                .filter(|n| n * bytes <= 16 && n * bytes >= 4);
            let widest = widths.into_iter().find(fits)?;
            (stride(&one.stride) == 1).then_some((along, widest))
        });
        let is_mapped = run.is_some_and(|(along, widest): (usize, i64)| {
            let beside = modes[1 - along.min(1)].leaves();
            let steps = beside.iter().map(|leaf| stride(&leaf.stride));
            let steps: Vec<i64> = steps.collect();
            // The bytes between two rows that a tensor map takes.
            let apart = 2..(1 << 40) / bytes;
            let is_matrix = modes.len() == 2 && modes.iter().all(Layout::is_leaf);
            is_matrix
                && widest * bytes == 16
                && matches!(steps[..], [step] if apart.contains(&step))
        });
        let layout = Layout::concat(&modes.iter().enumerate().map(open).collect::<Vec<Layout>>());
        Form {
            is_mapped,
            layout: layout.expect("positive extents make a layout"),
            run,
            listed: None,
        }
    }

    /// The form of a tensor whose rows a list names.
    pub(crate) fn by_list(self) -> Form {
        Form {
            is_mapped: false,
            run: self.run.filter(|(along, _)| *along != 0),
            listed: Some(0),
            ..self
        }
    }

    /// The form of the transpose.
    fn turned(&self) -> Form {
        Form {
            layout: turned(&self.layout),
            run: self.run.map(|(along, widest)| (1 - along, widest)),
            is_mapped: self.is_mapped,
            listed: self.listed.map(|mode| 1 - mode),
        }
    }

    /// Whether all elements along a mode are one. Those along a listed mode are not: a number of the list may be no row.
    fn is_one_along(&self, mode: usize) -> bool {
        if self.listed == Some(mode) {
            return false;
        }
        let mode = self.layout.mode(mode).expect("a matrix has two modes");
        mode.leaves()
            .iter()
            .all(|leaf| leaf.stride.coefficient().value() == 0)
    }
}

/// The transpose of a matrix, or of those of a batch. A list of rows is as it was.
pub(crate) fn turned(matrix: &Layout) -> Layout {
    if matrix.rank() < 2 {
        return matrix.clone();
    }
    let modes: Vec<usize> = [1, 0].into_iter().chain(2..matrix.rank()).collect();
    matrix.select(&modes).expect("a matrix has two modes")
}

impl KernelEpilogue {
    /// The epilogue of a product without another.
    pub(crate) fn scaled(operands: &Operands) -> KernelEpilogue {
        KernelEpilogue {
            epilogue: Epilogue::scaled(sum_type(operands.ab), operands.c, operands.beta)
                .expect("invariant: the types of a checked plan have this epilogue"),
            forms: Vec::new(),
            awaits: false,
            is_own: false,
        }
    }

    /// The epilogue of the transposed product.
    pub(crate) fn turned(&self) -> KernelEpilogue {
        KernelEpilogue {
            epilogue: self.epilogue.turned(),
            forms: self.forms.iter().map(Form::turned).collect(),
            awaits: self.awaits,
            is_own: self.is_own,
        }
    }

    /// The name of the tensor with a number among those that are read.
    pub(crate) fn name_of_tensor(&self, number: usize) -> &str {
        let inputs = self.epilogue.inputs();
        let mut tensors = inputs.filter(|input| input.kind == EpilogueInputKind::Tensor);
        let input = tensors.nth(number);
        &input
            .expect("invariant: it is a tensor of the epilogue")
            .name
    }

    /// The number of the tensor that TMA brings to where C is staged, among those that are read: the first one of C's type and order
    /// that a tensor map describes, if the old C does not come there. The kernel that adds parts of K stages nothing, and the threads
    /// load it in groups, whose parts begin anywhere.
    pub(crate) fn landing(&self, plan: &GemmPlan, batch: &BatchForm) -> Option<usize> {
        let is_whole = plan.split == 1 && batch.groups.is_none();
        if plan.operands.beta || !is_whole || !plan.stages_c() {
            return None;
        }
        let along = match plan.operands.major(Operand::C) {
            Major::First => 0,
            Major::Second => 1,
        };
        let inputs = self.epilogue.inputs();
        let mut tensors = inputs.filter(|input| input.kind == EpilogueInputKind::Tensor);
        let mut forms = self.forms.iter();
        tensors.position(|input| {
            let form = forms.next();
            form.is_some_and(|form| {
                let runs = form.run.is_some_and(|(mode, _)| mode == along);
                input.ty == plan.operands.c && form.is_mapped && runs
            })
        })
    }

    /// Declares the parameters: the scalars, the tensors that are read, the outputs beside C.
    pub(crate) fn declare(&self, k: &mut Builder) -> Terms {
        self.declare_with(k, None)
    }

    /// The same, where a function declares the tensor map of the tensor with a number.
    pub(crate) fn declare_with(
        &self,
        k: &mut Builder,
        landing: Option<(usize, &MakeMap<'_>)>,
    ) -> Terms {
        let mut terms: Vec<Term> = Vec::new();
        let is_turned = self.epilogue.is_turned();
        // The modes of the kernel's C, which may be the transpose.
        let mode = |of_c: usize| if is_turned { 1 - of_c } else { of_c };
        let mut closures = self.epilogue.closures();
        for input in self.epilogue.inputs() {
            terms.push(match input.kind {
                EpilogueInputKind::Accumulator => Term::Accumulator(0),
                EpilogueInputKind::SecondAccumulator => Term::Accumulator(1),
                EpilogueInputKind::C => Term::C,
                EpilogueInputKind::Row => Term::Coordinate(mode(0)),
                EpilogueInputKind::Column => Term::Coordinate(mode(1)),
                EpilogueInputKind::Closure => {
                    let closure = closures
                        .next()
                        .expect("invariant: each input has its closure");
                    Term::Closure(closure.clone())
                }
                EpilogueInputKind::Scalar => {
                    let register = k.scalar_argument(&input.name, scalar_type(input.ty));
                    Term::Scalar(register, input.ty)
                }
                EpilogueInputKind::Tensor => Term::Open,
            });
        }
        let mut forms = self.forms.iter();
        let tensor = |k: &mut Builder, forms: &mut Iter<'_, Form>, name: &str, ty: Ty| {
            let form = forms.next().expect("every tensor has a form").clone();
            let tensor = k.tensor(name, ty, &form.layout);
            TermTensor {
                cut: tensor.clone(),
                tensor,
                form,
                list: None,
            }
        };
        let (mut landed, mut number) = (None, 0);
        for (term, input) in terms.iter_mut().zip(self.epilogue.inputs()) {
            if let Term::Open = term {
                *term = match landing {
                    Some((at, map)) if at == number => {
                        let form = forms.next().expect("every tensor has a form");
                        landed = Some(map(k, &input.name, &form.layout));
                        Term::Landed
                    }
                    _ => Term::Tensor(Box::new(tensor(k, &mut forms, &input.name, input.ty))),
                };
                number += 1;
            }
        }
        let mut outputs = self.epilogue.outputs();
        let c = outputs.next().expect("an epilogue has C").formula.clone();
        let beside = outputs.map(|output| {
            let ty = output.formula.ty();
            let matrix = tensor(k, &mut forms, &output.name, ty);
            (matrix, output.formula.clone())
        });
        let beside: Vec<(TermTensor, Formula)> = beside.collect();
        let places = (self.epilogue.has_coordinates())
            .then(|| k.identity_tensor([MOST_EXTENT, MOST_EXTENT]));
        let mut terms = Terms {
            places,
            is_turned,
            landed,
            beside,
            terms,
            c,
            awaited: None,
        };
        for (number, matrix) in terms.tensors().enumerate() {
            if let Some(listed) = matrix.form.listed {
                let list = k.tensor(&format!("list_{number}"), Ty::U32, list_form(listed));
                matrix.cut = list.clone();
                matrix.list = Some(list);
            }
        }
        terms.awaited = self.awaits.then(|| AwaitedFlags::declare(k));
        terms
    }
}

/// The layout of a list of the numbers along a mode of the product, as a matrix of the shape (M,N) whose elements are one along the
/// other mode.
fn list_form(listed: usize) -> Layout {
    let modes = [0, 1].map(|mode| {
        let stride = i64::from(mode == listed);
        Layout::leaf(Int::Dynamic(256), Int::Static(stride)).expect("one leaf")
    });
    Layout::concat(&modes).expect("positive extents make a layout")
}

/// Declares the tensor map of a tensor with a name and a layout.
pub(crate) type MakeMap<'m> = dyn Fn(&mut Builder, &str, &Layout) -> TmaTensor + 'm;

/// The parameters of an epilogue in a kernel.
#[derive(Clone)]
pub(crate) struct Terms {
    /// By the numbers of the inputs.
    terms: Vec<Term>,
    c: Formula,
    /// The coordinates of C, if a formula may read them. They begin at the first row of a group.
    places: Option<Tensor>,
    /// Whether these are the coordinates of C's transpose.
    is_turned: bool,
    /// The map of the tensor that TMA brings.
    landed: Option<TmaTensor>,
    /// The outputs beside C.
    beside: Vec<(TermTensor, Formula)>,
    /// The flags that say whether the tensors are there.
    awaited: Option<AwaitedFlags>,
}

#[derive(Clone)]
enum Term {
    /// That of the right factor of a number.
    Accumulator(usize),
    C,
    /// The coordinate of the element along a mode of C.
    Coordinate(usize),
    Closure(EpilogueClosure),
    Scalar(Reg, Ty),
    Tensor(Box<TermTensor>),
    /// What TMA brings in the place of the old C.
    Landed,
    /// A matrix that is declared after the scalars.
    Open,
}

#[derive(Clone)]
pub(super) struct TermTensor {
    /// The tensor whose elements are accessed, by their coordinates in the parameter.
    tensor: Tensor,
    /// The tensor that is cut into the parts of threads. It begins at the first row of a group.
    cut: Tensor,
    form: Form,
    /// The numbers that are its coordinates along the mode that its form names, as a matrix of the product's shape.
    list: Option<Tensor>,
}

/// The elements of tensors that a thread has loaded before it computes with them, by the numbers of the inputs.
#[derive(Default)]
pub(crate) struct EarlyTerms(Vec<Option<Fragment>>);

impl EarlyTerms {
    fn of(&self, number: usize) -> Option<&Fragment> {
        self.0.get(number)?.as_ref()
    }
}

/// A thread's accumulators for each right factor, what C or the tensor that TMA brings holds where they go, and what it has loaded
/// for them before.
type ThreadSums<'p> = (&'p [Fragment], Option<&'p Fragment>, &'p EarlyTerms);

/// Which elements of a thread's part of a matrix are accessed, in which order.
struct Accesses {
    /// The indices in the part where the accesses begin.
    begins: Layout,
    /// The elements of an access.
    vector: Option<(usize, i64)>,
    /// The places of the part's elements among those that are accessed.
    places: Layout,
}

impl TermTensor {
    /// A matrix whose elements are accessed up to `widest` at once along a mode. `cut` has the coordinates of the parts of threads.
    pub(super) fn new(tensor: &Tensor, cut: &Tensor, (along, widest): (usize, i64)) -> TermTensor {
        let mode = Layout::leaf(Int::Dynamic(256), Int::Static(1)).expect("one leaf");
        let layout = Layout::concat(&[mode.clone(), mode]).expect("positive extents make a layout");
        TermTensor {
            tensor: tensor.clone(),
            cut: cut.clone(),
            form: Form {
                layout,
                run: Some((along, widest)),
                is_mapped: false,
                listed: None,
            },
            list: None,
        }
    }

    /// Whether all rows or all columns have the same elements, which no list chooses.
    fn is_vector(&self) -> bool {
        self.list.is_none() && [0, 1].into_iter().any(|mode| self.form.is_one_along(mode))
    }

    fn accesses(&self, part: &Tensor) -> Accesses {
        // Of each leaf: its extent, the mode along which it moves and how far, its step among the indices of the part.
        let mut before = 1;
        let mut leaves = Vec::new();
        for leaf in part.layout().leaves() {
            let extent = leaf.extent.value();
            let along = match &leaf.stride {
                Stride::Basis(basis) if extent > 1 => basis.path().next(),
                _ => None,
            };
            leaves.push((extent, along, leaf.stride.coefficient().value(), before));
            before *= extent;
        }
        let is_kept =
            |along: Option<usize>| along.is_some_and(|along| !self.form.is_one_along(along));
        let bits = i64::from(self.tensor.ty().bits());
        let first = leaves.iter().find(|leaf| leaf.0 > 1);
        let start = part.coordinates(0);
        let vector =
            first
                .zip(self.form.run)
                .and_then(|((extent, along, step, _), (run, widest))| {
                    let alignment = start.get(run)?.alignment();
                    let fits = |n: &i64| n * bits >= 32 && extent % n == 0 && alignment % n == 0;
                    let halves =
                        std::iter::successors(Some(widest), |n| Some(n / 2)).take_while(|n| *n > 1);
                    let widest = halves.into_iter().find(fits)?;
                    // The other leaves begin at multiples of a vector too.
                    let whole = |leaf: &(i64, Option<usize>, i64, i64)| {
                        leaf.1 != Some(run) || leaf.2 % widest == 0
                    };
                    let others = leaves.iter().filter(|leaf| leaf.3 != 1 && leaf.0 > 1);
                    (*along == Some(run) && *step == 1 && others.into_iter().all(whole))
                        .then_some((run, widest))
                });
        let mut wide = vector.map_or(1, |(_, wide)| wide);
        let (mut begins, mut places, mut count) = (Vec::new(), Vec::new(), 1);
        for (extent, along, _, before) in leaves {
            if !is_kept(along) {
                places.push((extent, 0));
                continue;
            }
            places.push((extent, count));
            count *= extent;
            begins.push((extent / wide, before * wide));
            wide = 1;
        }
        Accesses {
            begins: flat(&begins),
            vector,
            places: flat(&places),
        }
    }

    /// The elements at which the accesses to a thread's part begin.
    fn elements(&self, k: &mut Builder, part: &Tensor, begins: &Layout) -> Elements {
        let part = part.compose(begins);
        let mut is_there = None;
        let at = [0, 1].map(|mode| {
            if self.form.is_one_along(mode) {
                return Expr::from(0);
            }
            let at = Expr::coordinate(&part, mode);
            match &self.list {
                Some(list) if self.form.listed == Some(mode) => {
                    let mut of_list = [Expr::from(0), Expr::from(0)];
                    of_list[mode] = at.clone();
                    let row = k.gather(&list.elements(of_list));
                    // Beyond the list there is no row; 0 would be one.
                    is_there = Some(at.lt(list.extent(mode)));
                    Expr::from(&row)
                }
                _ => at,
            }
        });
        let elements = self.tensor.elements(at);
        match is_there {
            Some(is_there) => elements.only(is_there),
            None => elements,
        }
    }

    /// The thread's elements: each distinct one is loaded once. Those beyond the matrix are 0.
    pub(super) fn load(&self, k: &mut Builder, part: &Tensor) -> Fragment {
        let Accesses {
            begins,
            vector,
            places,
        } = self.accesses(part);
        let mut elements = self.elements(k, part, &begins);
        if let Some((mode, count)) = vector {
            elements = elements.vectors(mode, count);
        }
        k.gather(&elements).with_layout(places)
    }

    /// Stores the thread's elements, but for those beyond the matrix.
    pub(super) fn store(&self, k: &mut Builder, part: &Tensor, values: Expr) {
        let Accesses { begins, vector, .. } = self.accesses(part);
        let mut elements = self.elements(k, part, &begins);
        if let Some((mode, count)) = vector {
            elements = elements.vectors(mode, count);
        }
        k.scatter(values, &elements);
    }
}

/// The layout of these extents and strides.
fn flat(leaves: &[(i64, i64)]) -> Layout {
    let leaves = leaves.iter().filter(|(extent, _)| *extent > 1);
    let leaves = leaves.map(|(extent, stride)| Layout::leaf(*extent, *stride).expect("one leaf"));
    let leaves: Vec<Layout> = leaves.collect();
    let layout = match &leaves[..] {
        [] => Layout::leaf(1, 0),
        all => Layout::concat(all),
    };
    layout.expect("positive extents make a layout").to_static()
}

impl Terms {
    /// The tensors that are read and written.
    fn tensors(&mut self) -> impl Iterator<Item = &mut TermTensor> {
        let read = self.terms.iter_mut().filter_map(|term| match term {
            Term::Tensor(matrix) => Some(&mut **matrix),
            _ => None,
        });
        read.chain(self.beside.iter_mut().map(|(matrix, _)| matrix))
    }

    /// The map of the tensor that TMA brings in the place of the old C.
    pub(crate) fn landed(&self) -> Option<&TmaTensor> {
        self.landed.as_ref()
    }

    /// The flags that say whether the tensors are there.
    pub(crate) fn awaited(&self) -> Option<&AwaitedFlags> {
        self.awaited.as_ref()
    }

    /// Declares that the tensors have the products' extents in the modes that C has, which the launch checks.
    pub(crate) fn agree(&self, k: &mut Builder, batch: &BatchForm, extents: &[Index]) {
        for matrix in self.clone().tensors() {
            batch.agree(k, Operand::C, &matrix.tensor, extents);
        }
    }

    /// The terms of one product of a batch.
    pub(crate) fn of_product(&self, product: &[Index]) -> Terms {
        let mut terms = self.clone();
        for matrix in terms.tensors() {
            // The launch has a block for each product, and no more.
            matrix.tensor = matrix.tensor.fixed_behind(product).stated_inside();
            matrix.cut = matrix.cut.fixed_behind(product);
        }
        terms
    }

    /// The terms of the rows of a group, if they are given.
    pub(crate) fn of_rows(&self, rows: Option<&Span>) -> Terms {
        let mut terms = self.clone();
        if let Some(Span { first, end }) = rows {
            for matrix in terms.tensors() {
                matrix.cut = matrix.cut.narrow(0, first, end);
                // A list may name any row: the list itself ends with the group.
                let ends = matrix.list.as_mut().unwrap_or(&mut matrix.tensor);
                *ends = ends.narrow(0, 0, end);
                // They begin and end within a vector along M.
                matrix.form.run = matrix.form.run.filter(|(along, _)| *along != 0);
            }
            if let Some(places) = &mut terms.places {
                *places = places.narrow(0, first, end);
            }
        }
        terms
    }

    /// The tensors that are read by the threads.
    pub(crate) fn reads(&self) -> i64 {
        let is_tensor = |term: &&Term| matches!(term, Term::Tensor(_));
        self.terms.iter().filter(is_tensor).count() as i64
    }

    /// Those with one element per row or per column.
    pub(crate) fn vectors(&self) -> i64 {
        let is_vector = |term: &&Term| matches!(term, Term::Tensor(matrix) if matrix.is_vector());
        self.terms.iter().filter(is_vector).count() as i64
    }

    /// Loads a thread's elements of the tensors with one element per row or per column, such as a bias: a few registers for many
    /// accumulators, which a thread holds while it computes with those of another part. `part` cuts the thread's part of a matrix.
    pub(crate) fn load_early(
        &self,
        k: &mut Builder,
        part: &dyn Fn(&Tensor) -> Tensor,
    ) -> EarlyTerms {
        self.load_some(k, &TermTensor::is_vector, part)
    }

    /// Loads a thread's elements of all tensors.
    pub(super) fn load_all(&self, k: &mut Builder, part: &dyn Fn(&Tensor) -> Tensor) -> EarlyTerms {
        self.load_some(k, &|_| true, part)
    }

    fn load_some(
        &self,
        k: &mut Builder,
        is_one: &dyn Fn(&TermTensor) -> bool,
        part: &dyn Fn(&Tensor) -> Tensor,
    ) -> EarlyTerms {
        let early = self.terms.iter().map(|term| match term {
            Term::Tensor(matrix) if is_one(matrix) => Some(matrix.load(k, &part(&matrix.cut))),
            _ => None,
        });
        EarlyTerms(early.collect())
    }

    /// Stores the outputs beside C, and returns the elements of C. `sums` are some of a thread's accumulators for each right factor,
    /// `old` what C or the tensor that TMA brings holds where they go, `early` what the thread has loaded for them before, and `part`
    /// cuts the thread's part of a matrix in their order.
    pub(crate) fn finish(
        &self,
        k: &mut Builder,
        of_thread: ThreadSums<'_>,
        part: &dyn Fn(&Tensor) -> Tensor,
    ) -> Fragment {
        let values = self.values(k, of_thread, part);
        self.finish_values(k, values.as_deref(), &of_thread.0[0], part)
    }

    /// The same of values that a thread has computed before, in the order of `sums`.
    pub(crate) fn finish_values(
        &self,
        k: &mut Builder,
        values: Option<&[Expr]>,
        sums: &Fragment,
        part: &dyn Fn(&Tensor) -> Tensor,
    ) -> Fragment {
        if let Some(values) = values {
            self.store_beside(k, values, part);
        }
        let c = k.fragment(self.c.ty(), sums.layout());
        if let Some(values) = values {
            k.assign(&c, self.c.expr().over(values));
        }
        c
    }

    /// Whether closures compute some of the values.
    pub(crate) fn has_closures(&self) -> bool {
        let is_closure = |term: &Term| matches!(term, Term::Closure(_));
        self.terms.iter().any(is_closure)
    }

    /// Stores the outputs beside C, and the elements of C as those of a tensor.
    pub(super) fn finish_into(
        &self,
        k: &mut Builder,
        c: &TermTensor,
        of_thread: ThreadSums<'_>,
        part: &dyn Fn(&Tensor) -> Tensor,
    ) {
        if let Some(values) = self.values(k, of_thread, part) {
            self.store_beside(k, &values, part);
            c.store(k, &part(&c.cut), self.c.expr().over(&values));
        }
    }

    fn store_beside(&self, k: &mut Builder, values: &[Expr], part: &dyn Fn(&Tensor) -> Tensor) {
        for (matrix, formula) in &self.beside {
            let elements = formula.expr().over(values);
            matrix.store(k, &part(&matrix.cut), elements);
        }
    }

    /// The terms' values, by the numbers of the inputs; `None` if the kernel has failed.
    pub(crate) fn values(
        &self,
        k: &mut Builder,
        (sums, old, early): ThreadSums<'_>,
        part: &dyn Fn(&Tensor) -> Tensor,
    ) -> Option<Vec<Expr>> {
        let count = sums[0].layout().size();
        let places = self.places.as_ref().map(part);
        if let Some(places) = places.as_ref().filter(|all| all.layout().size() != count) {
            // Nothing was cut, since the kernel has failed before, and keeps that failure.
            let why = format!("{} elements, and {count} sums", places.layout().size());
            k.fail_with(&colex_tensor::Error::new("coordinates of C", why));
            return None;
        }
        let mut values: Vec<Expr> = Vec::new();
        for (number, term) in self.terms.iter().enumerate() {
            let value = match (term, old) {
                (Term::Coordinate(mode), _) => {
                    let places = places.as_ref();
                    let places =
                        places.expect("invariant: a coordinate is declared with the places");
                    Expr::coordinate(places, *mode)
                }
                (Term::Closure(closure), _) => {
                    let places = places.as_ref();
                    let places = places.expect("invariant: a closure is declared with the places");
                    let elements = EpilogueElements::new(places, count, self.is_turned);
                    match apply(k, closure, (&values, &elements), count) {
                        Ok(value) => value,
                        Err(error) => {
                            k.fail_with(&error);
                            return None;
                        }
                    }
                }
                (Term::Accumulator(factor), _) => Expr::from(&sums[*factor]),
                (Term::Scalar(register, ty), _) => Expr::register(*register, *ty),
                (Term::Tensor(matrix), _) => match early.of(number) {
                    Some(loaded) => Expr::from(loaded),
                    None => Expr::from(matrix.load(k, &part(&matrix.cut))),
                },
                (Term::C | Term::Landed, Some(old)) => Expr::from(old),
                // No formula reads it, or C would have been read.
                (Term::C | Term::Landed | Term::Open, _) => Expr::from(0),
            };
            values.push(value);
        }
        Some(values)
    }
}

/// Whether instructions meet threads of other warps.
fn has_barrier(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| {
        let meets = (stmt.op.sync()).is_some_and(|sync| {
            !matches!(sync, Sync::WarpSync { .. }) && sync.effect() != SyncEffect::None
        });
        meets || stmt.op.blocks().into_iter().any(has_barrier)
    })
}

/// The elements that a closure makes of a thread's, in their order.
fn apply(
    k: &mut Builder,
    closure: &EpilogueClosure,
    (values, elements): (&[Expr], &EpilogueElements),
    count: i64,
) -> Result<Expr, colex_tensor::Error> {
    // One mode, and registers of its own: the closure may write them.
    let order = flat(&[(count, 1)]);
    let of = |k: &mut Builder, ty: Ty, value: Expr| {
        let [of_formula, own] = [k.fragment(ty, &order), k.fragment(ty, &order)];
        k.assign(&of_formula, value);
        // The builder knows which elements of a tile the first registers hold, and a closure may make others of them.
        k.emit(|ir| {
            for (d, a) in own.regs().iter().zip(of_formula.regs()) {
                ir.mov_to(*d, *a);
            }
        });
        own
    };
    let arguments = closure.arguments.iter();
    let arguments: Vec<Fragment> = arguments
        .map(|formula| of(k, formula.ty(), formula.expr().over(values)))
        .collect();
    let placed = k.emit(|ir| ir.placed().len());
    let value = (closure.body)(k, &arguments, elements)?;
    if k.emit(|ir| has_barrier(ir.placed().get(placed..).unwrap_or_default())) {
        let why = format!(
            "the closure {} has a barrier, and some warps of a block never come by: a closure exchanges elements within a warp, and \
             what takes the whole block is a kernel behind the product",
            closure.name
        );
        return Err(colex_tensor::Error::new("closure", why));
    }
    Ok(Expr::from(of(k, closure.ty, value)))
}

//! The cache of prepared library calls of a device: a repeated call finds its launches here.
//!
//! There are three levels, each looked up only where the one above has nothing. A *call* has the addresses of the
//! operands: its arguments are ready, tensor maps included, and a launch is all that is left. A *shape* has all but the
//! addresses, of which it knows the last eight bits, since those decide about vectors and alignment: it is bound to
//! addresses by writing them into the arguments, and by encoding tensor maps. A *kernel* belongs to a plan.

use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use colex_atom::TensorMap;

use crate::error::Error;
use colex_device::{BareLaunch, CheckedLaunch, Device, Function, LoadedKernel, Memo};
use colex_ir::launch::{Argument, Launch, TensorMapArgument};
use colex_sim::Report;
use colex_tensor::TensorKernel;
use smallvec::SmallVec;

/// How many of the last calls, shapes and kernels each cache has.
const CALLS: usize = 1024;
const SHAPES: usize = 512;
const KERNELS: usize = 256;

/// Addresses of operands.
pub(crate) type Addresses = SmallVec<[u64; 3]>;

/// Prepared calls of one kind: by shape `S`, from kernels by plan `P`, with what `A` says of a shape.
#[derive(Debug)]
pub(crate) struct PreparedCalls<S, P, A> {
    calls: Memo<(S, Addresses), Call<A>>,
    shapes: Memo<(S, SmallVec<[u8; 8]>), Shape<A>>,
    pub(crate) kernels: Memo<P, KernelOf>,
}

/// A kernel with what it was built from.
#[derive(Debug)]
pub(crate) struct KernelOf {
    pub(crate) built: Arc<TensorKernel>,
    pub(crate) loaded: Arc<LoadedKernel>,
}

/// The part that all calls of a shape share.
#[derive(Debug)]
pub(crate) struct Shape<A> {
    about: A,
    launches: Vec<PreparedLaunch>,
}

/// A launch whose addresses are open.
#[derive(Debug)]
pub(crate) struct PreparedLaunch {
    loaded: Arc<LoadedKernel>,
    launch: Launch,
    slots: Vec<Slot>,
    /// Whether no block begins before the launch before it has ended.
    in_order: bool,
}

/// An argument whose address is open.
#[derive(Debug)]
enum Slot {
    /// An argument that does not depend on addresses.
    Value(Argument),
    /// The given number of bytes behind an operand's first.
    Pointer { operand: usize, offset: u64 },
    /// A tensor that begins where the operand does.
    Map { operand: usize, map: TensorMap },
    /// The address of the call's workspace.
    Workspace,
    /// The address of the words by which blocks meet.
    Words,
}

/// What an address among the arguments of a launch belongs to. The addresses of operands are known when a call is bound, and those of memory
/// beside them when the call [has it](Call::with_workspace).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressOf {
    Operand(usize),
    Workspace,
    Words,
}

impl From<usize> for AddressOf {
    fn from(operand: usize) -> AddressOf {
        AddressOf::Operand(operand)
    }
}

/// The argument that stands where a call gets an address of memory beside its operands. Its place says so, not its number: 0 may be a stride
/// as well.
pub(crate) const NO_ADDRESS: Argument = Argument::Pointer(0);

/// A call ready to be launched.
#[derive(Debug)]
pub(crate) struct Call<A> {
    shape: Arc<Shape<A>>,
    arguments: Vec<Vec<Argument>>,
    /// Whether it has run before.
    has_run: AtomicBool,
    /// Its launches, checked once, from the second run on: a call that runs once does not pay for what later runs save.
    checked: OnceLock<Vec<CheckedLaunch>>,
}

impl<S, P, A> PreparedCalls<S, P, A>
where
    S: Clone + Eq + Hash,
    P: Clone + Eq + Hash,
{
    /// Builds an empty cache.
    pub(crate) fn new() -> Self {
        PreparedCalls {
            calls: Memo::new(CALLS),
            shapes: Memo::new(SHAPES),
            kernels: Memo::new(KERNELS),
        }
    }

    /// Drops everything that no caller still holds.
    pub(crate) fn clear(&self) {
        self.calls.clear();
        self.shapes.clear();
        self.kernels.clear();
    }

    /// Returns the call of a shape at these addresses of a device. `prepare` makes the shape where it is new.
    ///
    /// # Errors
    ///
    /// Returns the errors of `prepare` and of the encoding of tensor maps.
    pub(crate) fn call(
        &self,
        shape: S,
        addresses: &[u64],
        device: &Device,
        prepare: impl FnOnce(&S) -> Result<Shape<A>, Error>,
    ) -> Result<Arc<Call<A>>, Error> {
        let key = (shape, Addresses::from(addresses));
        self.calls.get_or_make(&key, || {
            let low = addresses.iter().map(|address| *address as u8).collect();
            let key = (key.0.clone(), low);
            let shape = self.shapes.get_or_make(&key, || prepare(&key.0))?;
            Call::bind(shape, addresses, device)
        })
    }
}

impl<A> Shape<A> {
    pub(crate) fn new(about: A, launches: Vec<PreparedLaunch>) -> Shape<A> {
        Shape { about, launches }
    }
}

impl PreparedLaunch {
    /// Opens the addresses of a launch's arguments: its pointers and tensor maps are those of the operands in `order`,
    /// of which a kernel may have some only, and of the memory that a call has beside them.
    pub(crate) fn new(
        loaded: Arc<LoadedKernel>,
        launch: Launch,
        arguments: Vec<Argument>,
        addresses: &[u64],
        order: impl IntoIterator<Item = impl Into<AddressOf>>,
    ) -> PreparedLaunch {
        let mut order = order.into_iter();
        let mut next = || {
            let next = order.next();
            next.expect("an operand has one pointer or one map").into()
        };
        let slot = |argument: Argument| match argument {
            Argument::Pointer(address) => match next() {
                AddressOf::Operand(operand) => {
                    let offset = address - addresses[operand];
                    Slot::Pointer { operand, offset }
                }
                AddressOf::Workspace => Slot::Workspace,
                AddressOf::Words => Slot::Words,
            },
            Argument::TensorMap(bound) => {
                let AddressOf::Operand(operand) = next() else {
                    unreachable!("memory beside the operands has no tensor map")
                };
                let map = bound.map;
                Slot::Map { operand, map }
            }
            value => Slot::Value(value),
        };
        PreparedLaunch {
            loaded,
            launch,
            slots: arguments.into_iter().map(slot).collect(),
            in_order: false,
        }
    }

    /// The same launch, of which no block begins before the launch before it has ended if `in_order`, even if the kernel's threads
    /// wait for that end.
    pub(crate) fn in_order(self, in_order: bool) -> PreparedLaunch {
        PreparedLaunch { in_order, ..self }
    }

    /// Returns what tells its kernel from the others that a device has loaded.
    pub(crate) fn kernel(&self) -> *const LoadedKernel {
        Arc::as_ptr(&self.loaded)
    }

    fn bind(&self, addresses: &[u64], device: &Device) -> Result<Vec<Argument>, Error> {
        let bound = |slot: &Slot| {
            Ok(match slot {
                Slot::Value(argument) => argument.clone(),
                Slot::Pointer { operand, offset } => {
                    Argument::Pointer(addresses[*operand] + offset)
                }
                Slot::Map { operand, map } => {
                    device.tensor_map_at(map, addresses[*operand])?.into()
                }
                Slot::Workspace | Slot::Words => NO_ADDRESS,
            })
        };
        self.slots.iter().map(bound).collect()
    }
}

impl<A> Call<A> {
    fn bind(shape: Arc<Shape<A>>, addresses: &[u64], device: &Device) -> Result<Call<A>, Error> {
        let launches = shape.launches.iter();
        let arguments = launches.map(|one| one.bind(addresses, device));
        let arguments = arguments.collect::<Result<_, Error>>()?;
        Ok(Call::new(shape, arguments))
    }

    fn new(shape: Arc<Shape<A>>, arguments: Vec<Vec<Argument>>) -> Call<A> {
        Call {
            shape,
            arguments,
            has_run: AtomicBool::new(false),
            checked: OnceLock::new(),
        }
    }

    /// Returns the same call with the address of its workspace, and with that of the words by which its blocks meet, if it has some.
    pub(crate) fn with_workspace(&self, workspace: u64, words: Option<u64>) -> Call<A> {
        let filled = |(slot, argument): (&Slot, &Argument)| match (slot, words) {
            (Slot::Workspace, _) => Argument::Pointer(workspace),
            (Slot::Words, Some(words)) => Argument::Pointer(words),
            (Slot::Words | Slot::Value(_) | Slot::Pointer { .. } | Slot::Map { .. }, _) => {
                argument.clone()
            }
        };
        let launches = self.shape.launches.iter().zip(&self.arguments);
        let arguments =
            launches.map(|(one, arguments)| one.slots.iter().zip(arguments).map(filled).collect());
        Call::new(self.shape.clone(), arguments.collect())
    }

    /// Returns what is known of the call's shape.
    pub(crate) fn about(&self) -> &A {
        &self.shape.about
    }

    /// Returns the kernels, in the order of their launches.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = &Arc<LoadedKernel>> {
        self.shape.launches.iter().map(|one| &one.loaded)
    }

    /// Launches on a device.
    ///
    /// # Errors
    ///
    /// Returns the device's error if a launch fails.
    pub(crate) fn run(&self, device: &Device) -> Result<(), Error> {
        if let Some(checked) = self.checked.get() {
            let mut checked = checked.iter();
            return Ok(checked.try_for_each(|launch| device.launch_checked(launch))?);
        }
        if self.has_run.swap(true, Ordering::Relaxed) && !device.is_simulator() {
            let launches = self.shape.launches.iter().zip(&self.arguments);
            let checked = launches.map(|(one, arguments)| {
                device.checked_launch(&one.loaded, (one.launch, one.in_order), arguments)
            });
            let checked = checked.collect::<Result<_, _>>()?;
            // Another thread may have been first, with the same.
            let mut checked = self.checked.get_or_init(|| checked).iter();
            return Ok(checked.try_for_each(|launch| device.launch_checked(launch))?);
        }
        let mut launches = self.shape.launches.iter().zip(&self.arguments);
        launches.try_for_each(|(one, arguments)| {
            if one.in_order {
                return Ok(device.launch_in_order(&*one.loaded, one.launch, arguments)?);
            }
            Ok(device.launch(&*one.loaded, one.launch, arguments)?)
        })
    }

    /// Returns the launches as a bench runs them beside the call: each is one call of the driver.
    ///
    /// # Errors
    ///
    /// Returns the device's error if it has no driver.
    pub(crate) fn bare(&self, device: &Device) -> Result<Vec<BareLaunch>, Error> {
        let launches = self.shape.launches.iter().zip(&self.arguments);
        let bare = launches.map(|(one, arguments)| {
            device.bare_launch(&one.loaded, (one.launch, one.in_order), arguments)
        });
        Ok(bare.collect::<Result<_, _>>()?)
    }

    /// Runs the launches on the simulator, and returns what each of them counted.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::profile`].
    pub(crate) fn profile(&self, device: &Device) -> Result<Vec<Report>, Error> {
        let launches = self.shape.launches.iter().zip(&self.arguments);
        let count = |(one, arguments): (&PreparedLaunch, &Vec<Argument>)| {
            Ok(device.profile(&*one.loaded, one.launch, arguments)?)
        };
        launches.map(count).collect()
    }
}

/// Returns a kernel of a call on the call's device.
pub(crate) fn function(device: &Device, kernel: &Arc<LoadedKernel>) -> Function {
    let function = device.function(kernel.clone());
    function.expect("invariant: the kernels of a call were loaded on its device")
}

/// A tensor map among the arguments of a shape. It is checked and encoded when the shape is bound to addresses.
pub(crate) fn unencoded(map: TensorMap, address: u64) -> Argument {
    let encoded = None;
    Argument::from(TensorMapArgument {
        map,
        address,
        encoded,
    })
}

/// Whether a device is the one that a call was made for.
pub(crate) fn same_device(device: &Device, made_for: &Device) -> Result<(), Error> {
    Ok(device.check_same("the prepared call", made_for)?)
}

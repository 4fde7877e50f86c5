//! `View` and `ViewMut`: memory of a device seen through a layout.

use core::cell::RefCell;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops::Deref;
use std::sync::Arc;

use colex_ir::launch::DeviceMemory;
use colex_layout::{IntTuple, IntoIntTuple, IntoLayout, Layout, Stride, Tuple};
use smallvec::SmallVec;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::device_slice::DeviceSlice;
use crate::element::Element;
use crate::error::{Error, ErrorKind};

/// Memory that a kernel reads, seen through a layout: the element at coordinate `c` is element `layout(c)` of the
/// memory.
///
/// [`Buffer::view`] builds a view from a shape, [`View::new`] from any layout.
///
/// ```
/// use colex_device::{Device, View};
///
/// let device = Device::open();
/// let buffer = device.zeros::<f32>(12)?;
/// let matrix = View::new(&buffer, "(3,4):(4,1)")?;
/// assert_eq!(matrix.permute(&[1, 0])?.layout().unwrap().to_string(), "(4,3):(1,4)");
///
/// let error = View::new(&buffer, "(4,4):(4,1)").unwrap_err();
/// assert_eq!(error.to_string(), "(4,4):(4,1) reaches element 15, and the buffer has elements 0 to 11");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct View<'a, T> {
    device: Device,
    address: u64,
    length: usize,
    /// Shared by the clones of a view, since a layout takes a kilobyte.
    form: Arc<Form>,
    /// One more than the offset of the last element.
    reach: u64,
    elements: PhantomData<&'a T>,
}

/// The coordinates of a view.
#[derive(Debug)]
struct Form {
    shape: IntTuple,
    /// `None` if an extent is 0, which no layout has.
    layout: Option<Layout>,
}

/// What tells views apart, and holds no memory: the form of a view, by its place in memory, and the address. Two keys that are equal are
/// those of views with one layout at one address; views that were made by different calls may have other keys, though they are alike.
///
/// ```
/// use colex_atom::Arch;
/// use colex_device::Device;
///
/// let device = Device::simulator(Arch::Sm80);
/// let buffer = device.zeros::<f32>(6)?;
/// let view = buffer.view((2, 3))?;
/// assert_eq!(view.key(), view.clone().key());
/// assert_ne!(view.key(), buffer.view((3, 2))?.key());
/// assert_eq!(view.key().shape().to_string(), "(2,3)");
/// # Ok::<(), colex_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ViewKey {
    form: Arc<Form>,
    address: u64,
}

impl ViewKey {
    /// Returns the shape of the view.
    pub fn shape(&self) -> &IntTuple {
        &self.form.shape
    }

    /// Returns the layout of the view; `None` if an extent is 0.
    pub fn layout(&self) -> Option<&Layout> {
        self.form.layout.as_ref()
    }
}

impl PartialEq for ViewKey {
    fn eq(&self, other: &ViewKey) -> bool {
        // A key holds the form, so no other form has its place meanwhile.
        self.address == other.address && Arc::ptr_eq(&self.form, &other.form)
    }
}

impl Eq for ViewKey {}

impl Hash for ViewKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (Arc::as_ptr(&self.form) as usize).hash(state);
        self.address.hash(state);
    }
}

impl Form {
    fn of(layout: Layout) -> Form {
        Form {
            shape: layout.shape(),
            layout: Some(layout),
        }
    }
}

/// A form that a thread made, and what it was made from beside its shape.
#[derive(Clone, Debug)]
struct MadeForm {
    strides: Strides,
    form: Arc<Form>,
}

/// The strides of a form that a thread keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Strides {
    Compact(Contiguous),
    /// Extents, and behind them as many strides.
    Given(SmallVec<[i64; 8]>),
}

/// The forms that a thread keeps: more than the three or four of a call, few enough to look at all of them.
const FORMS: usize = 8;

thread_local! {
    /// The last forms of this thread, and the place of the next one. A layout takes 0.3 us, which is a third of what a call of the library
    /// may take beyond its launch for all of its views.
    static MADE: RefCell<([Option<MadeForm>; FORMS], usize)> = const { RefCell::new(([const { None }; FORMS], 0)) };
}

/// Returns the form that the thread made last if a test holds for it.
fn made(is_same: impl Fn(&MadeForm) -> bool) -> Option<Arc<Form>> {
    // A thread that ends has no forms any more.
    let found = MADE.try_with(|made| {
        let (forms, _) = &*made.borrow();
        let same = forms.iter().flatten().find(|made| is_same(made));
        same.map(|made| made.form.clone())
    });
    found.ok().flatten()
}

/// Returns a form that the thread now keeps.
fn keep(strides: Strides, form: Form) -> Arc<Form> {
    let form = Arc::new(form);
    let _ = MADE.try_with(|made| {
        let (forms, next) = &mut *made.borrow_mut();
        let form = form.clone();
        forms[*next] = Some(MadeForm { strides, form });
        *next = (*next + 1) % FORMS;
    });
    form
}

/// Whether two shapes print alike. Equal ones may differ in what is known at compile time.
fn is_same(one: &IntTuple, other: &IntTuple) -> bool {
    let mut leaves = one.leaves().iter().zip(other.leaves());
    one == other && leaves.all(|(one, other)| one.is_static() == other.is_static())
}

/// Returns the compact form of a shape.
fn compact_form(shape: IntTuple, contiguous: Contiguous) -> Result<Arc<Form>, Error> {
    let strides = Strides::Compact(contiguous);
    let found = made(|made| made.strides == strides && is_same(&made.form.shape, &shape));
    match found {
        Some(form) => Ok(form),
        None => {
            let layout = compact(&shape, contiguous)?;
            Ok(keep(strides, Form { shape, layout }))
        }
    }
}

/// Returns the form of extents and strides.
fn strided_form(extents: &[i64], strides: &[i64]) -> Result<Arc<Form>, Error> {
    let shape = || IntTuple::flat(extents.iter().map(|extent| (*extent).into()));
    // A form that is found has as many extents as strides: the numbers alone do not tell where the strides begin.
    if extents.len() != strides.len() {
        let modes = extents.len();
        let why = format!("it has {modes} modes, and its strides are {strides:?}");
        let shape = shape().to_string();
        return Err(ErrorKind::Shape { shape, why }.into());
    }
    let found = made(|made| match &made.strides {
        Strides::Given(numbers) => {
            numbers.len() == extents.len() + strides.len()
                && numbers.starts_with(extents)
                && numbers.ends_with(strides)
        }
        Strides::Compact(_) => false,
    });
    if let Some(form) = found {
        return Ok(form);
    }
    let shape = shape();
    let is_empty = extents.contains(&0) && extents.iter().all(|extent| *extent >= 0);
    let form = if is_empty {
        Form {
            shape,
            layout: None,
        }
    } else {
        let stride = Tuple::flat(strides.iter().map(|stride| Stride::from(*stride)));
        Form::of((shape, stride).into_layout()?)
    };
    let numbers = extents.iter().chain(strides).copied().collect();
    Ok(keep(Strides::Given(numbers), form))
}

/// Memory that a kernel writes, seen through a layout. It borrows the memory mutably, and dereferences to a [`View`].
///
/// ```
/// use colex_device::{Device, ViewMut};
///
/// let device = Device::open();
/// let mut buffer = device.zeros::<f32>(12)?;
/// let columns = ViewMut::new(&mut buffer, "(3,4):(1,3)")?;
/// assert_eq!(columns.layout().unwrap().to_string(), "(3,4):(1,3)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    view: View<'a, T>,
    elements: PhantomData<&'a mut T>,
}

impl<'a, T: Element> View<'a, T> {
    /// Returns the elements of a buffer, or of a `cudarc` slice that a device borrows, seen through `layout`, whose
    /// strides count elements.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::{Device, View};
    /// let buffer = Device::simulator(Arch::Sm80).upload(&[1u32, 2, 3, 4])?;
    /// let every_second = View::new(&buffer, "2:2")?;
    /// assert_eq!(every_second.shape().to_string(), "2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the strides are not integers, if the layout reaches outside of the memory, or if the memory
    /// does not begin at a multiple of an element's size.
    pub fn new(elements: &'a impl DeviceSlice<T>, layout: impl IntoLayout) -> Result<Self, Error> {
        View::checked(elements, Arc::new(Form::of(layout.into_layout()?)))
    }

    /// Returns a view of elements by the extents of its modes and by their strides, in elements: as [`View::new`] with the layout of these
    /// numbers. An extent of 0 makes an empty view.
    ///
    /// A thread keeps the layouts of its last calls, so a program that makes the same view for each call makes no layout.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::{Device, View};
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// let columns = View::strided(&buffer, &[3, 2], &[4, 1])?; // two columns of three rows of four
    /// assert_eq!(columns.layout().unwrap().to_string(), "(3,2):(4,1)");
    ///
    /// let error = View::strided(&buffer, &[3, 2], &[4]).unwrap_err();
    /// assert_eq!(error.to_string(), "(3,2) is not the shape of a view: it has 2 modes, and its strides are [4]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`View::new`], and an error if there are not as many strides as extents.
    pub fn strided(
        elements: &'a impl DeviceSlice<T>,
        extents: &[i64],
        strides: &[i64],
    ) -> Result<Self, Error> {
        View::checked(elements, strided_form(extents, strides)?)
    }

    /// As [`new`](Self::new), for borrows of any kind; without a layout the view is empty.
    fn checked(elements: &impl DeviceSlice<T>, form: Arc<Form>) -> Result<Self, Error> {
        let (address, length, need) = (elements.address(), elements.count(), T::BYTES as u64);
        if !address.is_multiple_of(need) {
            return Err(ErrorKind::Misaligned { address, need }.into());
        }
        let layout = form.layout.as_ref();
        let reach = layout.map_or(Ok(0), |layout| reach(layout, length))?;
        Ok(View {
            device: elements.device().clone(),
            address,
            length,
            form,
            reach,
            elements: PhantomData,
        })
    }

    /// Returns the compact view of a shape.
    fn compact(
        elements: &impl DeviceSlice<T>,
        shape: IntTuple,
        contiguous: Contiguous,
    ) -> Result<Self, Error> {
        View::checked(elements, compact_form(shape, contiguous)?)
    }

    /// Returns the first elements as a compact tensor of a shape, with the last mode contiguous, as [`Buffer::view`]
    /// does for a buffer.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::{Device, View};
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// assert_eq!(View::row_major(&buffer, (3, 4))?.layout().unwrap().to_string(), "(3,4):(4,_1)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Self::new), and an error if the shape has no compact layout.
    pub fn row_major(
        elements: &'a impl DeviceSlice<T>,
        shape: impl IntoIntTuple,
    ) -> Result<Self, Error> {
        View::compact(elements, shape.into_int_tuple()?, Contiguous::Last)
    }

    /// Returns the first elements as a compact tensor of a shape, with the first mode contiguous, as [`Buffer::view_t`]
    /// does for a buffer.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::{Device, View};
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// assert_eq!(View::column_major(&buffer, (3, 4))?.layout().unwrap().to_string(), "(3,4):(_1,3)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`row_major`](Self::row_major).
    pub fn column_major(
        elements: &'a impl DeviceSlice<T>,
        shape: impl IntoIntTuple,
    ) -> Result<Self, Error> {
        View::compact(elements, shape.into_int_tuple()?, Contiguous::First)
    }

    /// Returns the device that holds the memory.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let device = Device::simulator(Arch::Sm80);
    /// let buffer = device.zeros::<f32>(12)?;
    /// assert!(buffer.view((3, 4))?.device().is_same_device(&device));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the shape. Extents may be 0.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// assert_eq!(buffer.view((3, 0))?.shape().to_string(), "(3,0)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shape(&self) -> &IntTuple {
        &self.form.shape
    }

    /// Returns the layout, whose strides count elements; `None` if an extent is 0, which layouts do not have.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// assert_eq!(buffer.view((3, 4))?.layout().unwrap().to_string(), "(3,4):(4,_1)");
    /// assert!(buffer.view((3, 0))?.layout().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn layout(&self) -> Option<&Layout> {
        self.form.layout.as_ref()
    }

    /// Returns whether the view has no element.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// assert!(buffer.view((3, 0))?.is_empty() && !buffer.view((3, 4))?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.form.layout.is_none()
    }

    /// Returns what tells this view apart from others.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::Device;
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(6)?;
    /// let view = buffer.view((2, 3))?;
    /// assert_eq!(view.key(), view.clone().key());
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    pub fn key(&self) -> ViewKey {
        ViewKey {
            form: self.form.clone(),
            address: self.address,
        }
    }

    /// Returns the range of addresses that the view spans: its first byte, and one past its last byte.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// let (first, end) = buffer.view((2, 3))?.bytes();
    /// assert_eq!((first, end - first), (buffer.address(), 24));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bytes(&self) -> (u64, u64) {
        let first = self.address;
        (first, first + self.reach * T::BYTES as u64)
    }

    /// Returns the same memory seen through another layout, which may reach any element of the buffer behind the view's first.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(24)?;
    /// let image = buffer.view((2, 3, 4))?;
    /// // Pixels as one mode: rows of a matrix.
    /// let pixels = image.with_layout("((3,2),4):((4,12),1)")?;
    /// assert_eq!(pixels.shape().to_string(), "((3,2),4)");
    ///
    /// let error = image.with_layout("(7,4):(4,1)").unwrap_err();
    /// assert_eq!(error.to_string(), "(7,4):(4,1) reaches element 27, and the buffer has elements 0 to 23");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the strides are not integers, or if the layout reaches outside of the memory.
    pub fn with_layout(&self, layout: impl IntoLayout) -> Result<View<'a, T>, Error> {
        let layout = layout.into_layout()?;
        let reach = reach(&layout, self.length)?;
        let form = Form {
            shape: layout.shape(),
            layout: Some(layout),
        };
        Ok(View {
            form: Arc::new(form),
            reach,
            ..self.clone()
        })
    }

    /// Returns the same memory seen through a shape without elements: one of its extents is 0.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// assert!(buffer.view((3, 4))?.without_elements((0, 5))?.is_empty());
    /// assert!(buffer.view((3, 4))?.without_elements((1, 5)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if an extent is negative, or if none is 0.
    pub fn without_elements(&self, shape: impl IntoIntTuple) -> Result<View<'a, T>, Error> {
        let shape = shape.into_int_tuple()?;
        let extents = || shape.leaves().iter().map(|extent| extent.value());
        let why = match extents().find(|extent| *extent < 0) {
            Some(extent) => Some(format!("extent {extent} is negative")),
            None if extents().all(|extent| extent > 0) => Some("no extent is 0".to_string()),
            None => None,
        };
        if let Some(why) = why {
            let shape = shape.to_string();
            return Err(ErrorKind::Shape { shape, why }.into());
        }
        let form = Form {
            shape,
            layout: None,
        };
        Ok(View {
            form: Arc::new(form),
            reach: 0,
            ..self.clone()
        })
    }

    /// Returns the same elements with permuted modes: mode `i` of the result is mode `order[i]` of this view.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// let transposed = buffer.view((3, 4))?.permute(&[1, 0])?;
    /// assert_eq!(transposed.layout().unwrap().to_string(), "(4,3):(_1,4)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `order` is not a permutation of the modes.
    #[doc(alias = "transpose")]
    pub fn permute(&self, order: &[usize]) -> Result<View<'a, T>, Error> {
        let rank = self.form.shape.rank();
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..rank) {
            return Err(ErrorKind::Permutation {
                given: order.to_vec(),
                rank,
            }
            .into());
        }
        let named = "the order names every mode once";
        let layout = self.layout();
        let form = Form {
            shape: self.form.shape.select(order).expect(named),
            layout: layout.map(|layout| layout.select(order).expect(named)),
        };
        Ok(View {
            form: Arc::new(form),
            ..self.clone()
        })
    }
}

impl<'a, T: Element> ViewMut<'a, T> {
    /// Returns the elements of a buffer, or of a `cudarc` slice that was borrowed for writing, seen through `layout`,
    /// whose strides count elements.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::{Device, ViewMut};
    /// let mut buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// let blocks = ViewMut::new(&mut buffer, "(2,3):(6,1)")?;
    /// assert_eq!(blocks.shape().to_string(), "(2,3)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`View::new`], and an error if the slice was borrowed for reading.
    pub fn new(
        elements: &'a mut impl DeviceSlice<T>,
        layout: impl IntoLayout,
    ) -> Result<Self, Error> {
        let view = View::checked(elements, Arc::new(Form::of(layout.into_layout()?)))?;
        ViewMut::writable(elements, view)
    }

    /// Returns a view of elements by the extents of its modes and by their strides, in elements: as [`ViewMut::new`] with the layout of these
    /// numbers. An extent of 0 makes an empty view.
    ///
    /// A thread keeps the layouts of its last calls, so a program that makes the same view for each call makes no layout.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::{Device, ViewMut};
    /// let mut buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// let columns = ViewMut::strided(&mut buffer, &[3, 2], &[4, 1])?; // two columns of three rows of four
    /// assert_eq!(columns.layout().unwrap().to_string(), "(3,2):(4,1)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ViewMut::new`], and an error if there are not as many strides as extents.
    pub fn strided(
        elements: &'a mut impl DeviceSlice<T>,
        extents: &[i64],
        strides: &[i64],
    ) -> Result<Self, Error> {
        let view = View::checked(elements, strided_form(extents, strides)?)?;
        ViewMut::writable(elements, view)
    }

    /// Returns the view of [`View::row_major`] for writing.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::{Device, ViewMut};
    /// let mut buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// assert_eq!(ViewMut::row_major(&mut buffer, (3, 4))?.layout().unwrap().to_string(), "(3,4):(4,_1)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`View::row_major`] and of [`new`](Self::new).
    pub fn row_major(
        elements: &'a mut impl DeviceSlice<T>,
        shape: impl IntoIntTuple,
    ) -> Result<Self, Error> {
        let view = View::compact(elements, shape.into_int_tuple()?, Contiguous::Last)?;
        ViewMut::writable(elements, view)
    }

    /// Returns the view of [`View::column_major`] for writing.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::{Device, ViewMut};
    /// let mut buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// assert_eq!(ViewMut::column_major(&mut buffer, (3, 4))?.layout().unwrap().to_string(), "(3,4):(_1,3)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`View::row_major`] and of [`new`](Self::new).
    pub fn column_major(
        elements: &'a mut impl DeviceSlice<T>,
        shape: impl IntoIntTuple,
    ) -> Result<Self, Error> {
        let view = View::compact(elements, shape.into_int_tuple()?, Contiguous::First)?;
        ViewMut::writable(elements, view)
    }

    /// Returns a view of elements that may be written.
    fn writable(elements: &impl DeviceSlice<T>, view: View<'a, T>) -> Result<Self, Error> {
        if elements.is_writable() {
            let elements = PhantomData;
            Ok(ViewMut { view, elements })
        } else {
            Err(ErrorKind::ReadOnly.into())
        }
    }

    /// Returns the same elements with permuted modes: mode `i` of the result is mode `order[i]` of this view.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let mut buffer = Device::simulator(Arch::Sm80).zeros::<f32>(12)?;
    /// let transposed = buffer.view_mut((3, 4))?.permute(&[1, 0])?;
    /// assert_eq!(transposed.shape().to_string(), "(4,3)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `order` is not a permutation of the modes.
    pub fn permute(self, order: &[usize]) -> Result<ViewMut<'a, T>, Error> {
        Ok(ViewMut {
            view: self.view.permute(order)?,
            elements: PhantomData,
        })
    }
}

impl<'a, T> Deref for ViewMut<'a, T> {
    type Target = View<'a, T>;

    fn deref(&self) -> &View<'a, T> {
        &self.view
    }
}

impl<T: Element> DeviceMemory for View<'_, T> {
    fn address(&self) -> u64 {
        self.address
    }

    fn byte_count(&self) -> u64 {
        (self.length * T::BYTES) as u64
    }

    fn element_name(&self) -> &'static str {
        T::NAME
    }

    fn device_id(&self) -> usize {
        self.device.id()
    }

    fn device_name(&self) -> String {
        self.device.name()
    }
}

impl<T: Element> Buffer<T> {
    /// Returns the first elements of the buffer as a tensor of a shape, with the last mode contiguous as in ndarray and
    /// torch: `(m, n)` is `(m,n):(n,1)`.
    ///
    /// ```
    /// use colex_device::Device;
    ///
    /// let buffer = Device::open().zeros::<f32>(12)?;
    /// assert_eq!(buffer.view((3, 4))?.layout().unwrap().to_string(), "(3,4):(4,_1)");
    ///
    /// let error = buffer.view((4, 4)).unwrap_err();
    /// assert_eq!(error.to_string(), "(4,4):(4,_1) reaches element 15, and the buffer has elements 0 to 11");
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the shape has more elements than the buffer or is not a shape.
    pub fn view(&self, shape: impl IntoIntTuple) -> Result<View<'_, T>, Error> {
        View::row_major(self, shape)
    }

    /// Returns the first elements of the buffer as a tensor of a shape, with the first mode contiguous as in BLAS and
    /// CuTe: `(m, n)` is `(m,n):(1,m)`.
    ///
    /// ```
    /// let buffer = colex_device::Device::open().zeros::<f32>(12)?;
    /// assert_eq!(buffer.view_t((3, 4))?.layout().unwrap().to_string(), "(3,4):(_1,3)");
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`view`](Self::view).
    pub fn view_t(&self, shape: impl IntoIntTuple) -> Result<View<'_, T>, Error> {
        View::column_major(self, shape)
    }

    /// Returns the view of [`view`](Self::view) for writing. It borrows the buffer mutably while it lives.
    ///
    /// ```
    /// let mut buffer = colex_device::Device::open().zeros::<f32>(12)?;
    /// assert_eq!(buffer.view_mut((3, 4))?.layout().unwrap().to_string(), "(3,4):(4,_1)");
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// ```compile_fail,E0502
    /// let mut buffer = colex_device::Device::open().zeros::<f32>(12)?;
    /// let output = buffer.view_mut((3, 4))?;
    /// let input = buffer.view((3, 4))?; // cannot be borrowed while `output` is used below
    /// drop((input, output));
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`view`](Self::view).
    pub fn view_mut(&mut self, shape: impl IntoIntTuple) -> Result<ViewMut<'_, T>, Error> {
        ViewMut::row_major(self, shape)
    }

    /// Returns the view of [`view_t`](Self::view_t) for writing.
    ///
    /// ```
    /// let mut buffer = colex_device::Device::open().zeros::<f32>(12)?;
    /// assert_eq!(buffer.view_t_mut((3, 4))?.layout().unwrap().to_string(), "(3,4):(_1,3)");
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`view`](Self::view).
    pub fn view_t_mut(&mut self, shape: impl IntoIntTuple) -> Result<ViewMut<'_, T>, Error> {
        ViewMut::column_major(self, shape)
    }
}

/// The mode of a compact layout whose stride is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contiguous {
    First,
    Last,
}

/// Returns the compact layout of a shape, or none if an extent is 0.
fn compact(shape: &IntTuple, contiguous: Contiguous) -> Result<Option<Layout>, Error> {
    if shape.leaves().iter().any(|extent| extent.value() == 0) {
        return match shape.leaves().iter().find(|extent| extent.value() < 0) {
            None => Ok(None),
            Some(extent) => Err(ErrorKind::Shape {
                shape: shape.to_string(),
                why: format!("extent {extent} is negative"),
            }
            .into()),
        };
    }
    let layout = match contiguous {
        Contiguous::First => Layout::column_major(shape),
        Contiguous::Last => Layout::row_major(shape),
    };
    layout.map(Some).map_err(|error| {
        ErrorKind::Shape {
            shape: shape.to_string(),
            why: error.to_string(),
        }
        .into()
    })
}

/// Returns one more than the greatest offset of a layout, which must not leave memory of `length` elements.
fn reach(layout: &Layout, length: usize) -> Result<u64, Error> {
    let strides = || {
        ErrorKind::Strides {
            layout: layout.to_string(),
        }
        .into()
    };
    let outside = |element| {
        ErrorKind::Outside {
            layout: layout.to_string(),
            element,
            length,
        }
        .into()
    };
    let (mut least, mut greatest) = (0_i64, 0_i64);
    for leaf in layout.leaves() {
        let Stride::Int(stride) = leaf.stride else {
            return Err(strides());
        };
        let far = (leaf.extent.value() - 1)
            .checked_mul(stride.value())
            .ok_or_else(strides)?;
        let end = if far < 0 { &mut least } else { &mut greatest };
        *end = end.checked_add(far).ok_or_else(strides)?;
    }
    match (least, greatest) {
        (..0, _) => Err(outside(least)),
        (_, greatest) if greatest >= length as i64 => Err(outside(greatest)),
        (_, greatest) => Ok(greatest as u64 + 1),
    }
}

#[cfg(test)]
mod tests {
    use colex_atom::Arch;
    use colex_layout::{IntTuple, Layout};

    use super::{Contiguous, FORMS, View, ViewMut, compact};
    use crate::device::Device;

    /// A view has the layout of its shape however many other views the thread has made, and whether it made the same one before.
    #[test]
    fn law_a_compact_view_is_that_of_its_shape_when_it_is_made_again() {
        let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(64).expect("64");
        let mut shapes: Vec<IntTuple> = Vec::new();
        for rows in 0..4 {
            for columns in 0..5 {
                for text in [
                    format!("({rows},{columns})"),
                    format!("(_{rows},{columns})"),
                    format!("({rows},(2,{columns}))"),
                    format!("(({rows},2),{columns})"),
                    format!("{}", rows * columns),
                ] {
                    shapes.extend(text.parse::<IntTuple>());
                }
            }
        }
        shapes.push("(-1,0)".parse().expect("a shape"));
        assert!(shapes.len() > 4 * FORMS);
        let mut cases = 0;
        let mut law = |shape: &IntTuple, contiguous| {
            let view = View::compact(&buffer, shape.clone(), contiguous);
            match (view, compact(shape, contiguous)) {
                (Ok(view), Ok(layout)) => {
                    assert_eq!(view.shape().to_string(), shape.to_string());
                    let [found, expected] = [view.layout(), layout.as_ref()]
                        .map(|layout| layout.map(ToString::to_string));
                    assert_eq!(found, expected, "{shape}");
                }
                (Err(found), Err(expected)) => {
                    assert_eq!(found.to_string(), expected.to_string());
                }
                (view, layout) => panic!("{shape}: {view:?} and {layout:?}"),
            }
            cases += 1;
        };
        for (place, shape) in shapes.iter().enumerate() {
            for distance in 0..2 * FORMS {
                let before = &shapes[(place + distance) % shapes.len()];
                for contiguous in [Contiguous::First, Contiguous::Last, Contiguous::First] {
                    law(shape, contiguous);
                    law(before, contiguous);
                }
            }
        }
        println!("law view.compact_again: {cases} cases");
    }

    /// A view of extents and strides is that of their layout, made again or not.
    #[test]
    fn law_a_strided_view_is_that_of_its_layout_when_it_is_made_again() {
        let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(64).expect("64");
        let numbers = [-1, 0, 1, 2, 5];
        let mut cases = 0;
        for round in 0..2 {
            for extents in numbers {
                for others in numbers {
                    for stride in [-3, 0, 1, 7, i64::MAX] {
                        let (extents, strides) = ([extents, others], [stride, 1]);
                        for _ in 0..2 {
                            let found = View::strided(&buffer, &extents, &strides);
                            let is_empty = extents.contains(&0) && !extents.contains(&-1);
                            if is_empty {
                                let found = found.expect("an empty view");
                                let none = extents.iter().map(|extent| (*extent).into());
                                assert!(found.layout().is_none());
                                assert_eq!(found.shape(), &IntTuple::flat(none));
                            } else {
                                let layout = Layout::new((extents[0], extents[1]), (stride, 1));
                                let expected = layout
                                    .ok()
                                    .and_then(|layout| View::new(&buffer, layout).ok());
                                let told = |view: Option<View<'_, f32>>| {
                                    view.and_then(|view| view.layout().map(ToString::to_string))
                                };
                                let (found, expected) = (told(found.ok()), told(expected));
                                assert_eq!(
                                    found, expected,
                                    "{extents:?} {strides:?} in round {round}"
                                );
                            }
                            cases += 1;
                        }
                    }
                }
            }
        }
        let error = View::strided(&buffer, &[2, 2], &[1]).expect_err("one stride");
        assert_eq!(
            error.to_string(),
            "(2,2) is not the shape of a view: it has 2 modes, and its strides are [1]"
        );
        println!("law view.strided_again: {cases} cases");
    }

    /// As many numbers in all as those of a view that was made are a view only if they are as many strides as extents.
    #[test]
    fn law_a_strided_view_has_as_many_strides_as_extents() {
        let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(64).expect("64");
        let mut cases = 0;
        for modes in 1..5 {
            let extents = vec![2_i64; modes];
            let strides: Vec<i64> = (0..modes).rev().map(|mode| 1 << mode).collect();
            let numbers = [&extents[..], &strides].concat();
            for place in (0..=numbers.len()).filter(|place| *place != modes) {
                View::strided(&buffer, &extents, &strides).expect("a view");
                let (extents, strides) = numbers.split_at(place);
                let shape = IntTuple::flat(extents.iter().map(|extent| (*extent).into()));
                let expected = format!(
                    "{shape} is not the shape of a view: it has {place} modes, and its strides are {strides:?}"
                );
                let read = View::strided(&buffer, extents, strides).expect_err(&expected);
                let mut handle = buffer.clone();
                let written = ViewMut::strided(&mut handle, extents, strides);
                let written = written.expect_err(&expected);
                assert_eq!(read.to_string(), expected);
                assert_eq!(written.to_string(), expected);
                cases += 1;
            }
        }
        println!("law view.strides: {cases} cases");
    }
}
